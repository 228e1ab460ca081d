// SPDX-License-Identifier: Apache-2.0
#include "verbs.hpp"

#include "cli/text.hpp"

#include <cerrno>
#include <map>
#include <string_view>
#include <tuple>

namespace cryo::storing {

namespace {

using store::Client;
using store::Location;
using store::Manifest;

constexpr std::string_view latest_name = "latest";

struct Place {
    bool committed = false;
    uint64_t bytes = 0; // of objects
};

// The places that the keys of objects belong to.
void add_object(std::map<std::string, Place> &places, const store::StoredObject &object)
{
    const std::string_view key = object.key;
    const std::string manifest = "/" + std::string(store::manifest_name);
    const std::string files = "/" + std::string(store::files_name);
    if (key.ends_with(manifest)) {
        places[std::string(key.substr(0, key.size() - manifest.size()))].committed = true;
        return;
    }
    const size_t at = key.rfind(files);
    if (at != std::string_view::npos && key.find('/', at + files.size()) == std::string_view::npos)
        places[std::string(key.substr(0, at))].bytes += object.bytes;
}

cli::Json json_of(const Location &at, const Manifest &manifest)
{
    return {{"place", at.text()},
            {"complete", true},
            {"kind", store::name_of(manifest.kind)},
            {"name", manifest.name},
            {"files", manifest.files.size()},
            {"bytes", manifest.bytes()},
            {"host", manifest.host},
            {"pushed_ns", manifest.pushed_ns}};
}

} // namespace

Result<Location> last_of_series(Client &client, const Location &place)
{
    const size_t slash = place.key.rfind('/');
    const bool is_latest =
        slash != std::string::npos && std::string_view(place.key).substr(slash + 1) == latest_name;
    const Error none(ENOENT, place.text() + ": there is no such object");
    if (!is_latest)
        return none;
    const Location series = {place.bucket, place.key.substr(0, slash + 1)};
    const Result<std::vector<store::StoredObject>> objects = client.list(series);
    if (!objects)
        return objects.error();
    const std::string manifest = "/" + std::string(store::manifest_name);
    const store::StoredObject *last = nullptr;
    for (const store::StoredObject &object : *objects) {
        const size_t end = object.key.find('/', series.key.size());
        if (end == std::string::npos || std::string_view(object.key).substr(end) != manifest)
            continue;
        // Servers tell the time in seconds. Then names tell which is the later one, as numbers do.
        const auto order = [](const store::StoredObject &one) {
            return std::tuple(std::string_view(one.modified), one.key.size(),
                              std::string_view(one.key));
        };
        if (last == nullptr || order(*last) < order(object))
            last = &object;
    }
    if (last == nullptr)
        return none;
    return Location{place.bucket, last->key.substr(0, last->key.size() - manifest.size())};
}

Result<void> list(Options &options, const store::Settings &settings, const Location &place)
{
    Client client(settings, terms_of(options));
    const Result<std::vector<store::StoredObject>> objects = client.list(below(place));
    if (!objects)
        return objects.error();
    const Result<std::vector<store::PendingUpload>> uploads = client.uploads(below(place));
    if (!uploads)
        return uploads.error();
    std::map<std::string, Place> places;
    for (const store::StoredObject &object : *objects)
        add_object(places, object);
    for (const store::PendingUpload &upload : *uploads)
        add_object(places, {.key = upload.key});

    cli::Json json = cli::Json::array();
    cli::Columns table({cli::Align::left, cli::Align::left, cli::Align::right, cli::Align::right,
                        cli::Align::left});
    for (const auto &[key, found] : places) {
        const Location at{place.bucket, key};
        if (!found.committed) {
            json.push_back({{"place", at.text()}, {"complete", false}, {"bytes", found.bytes}});
            table.add({cli::printable(at.text()), "incomplete", "", cli::size_text(found.bytes),
                       "push it again, or remove it"});
            continue;
        }
        const Result<Manifest> manifest = Manifest::read(client, at);
        if (!manifest && manifest.error().code() == ENOENT)
            continue; // it was removed since
        if (!manifest) {
            json.push_back(
                {{"place", at.text()}, {"complete", false}, {"error", manifest.error().text()}});
            table.add({cli::printable(at.text()), "damaged", "", "",
                       cli::printable(manifest.error().text())});
            continue;
        }
        json.push_back(json_of(at, *manifest));
        table.add({cli::printable(at.text()), std::string(store::name_of(manifest->kind)),
                   cli::count_text(manifest->files.size(), "file", "files"),
                   cli::size_text(manifest->bytes()),
                   fmt::format("{} from {}", cli::time_text(manifest->pushed_ns),
                               cli::printable(manifest->host))});
    }
    std::string text = table.text(0);
    if (text.ends_with('\n'))
        text.pop_back();
    options.talk.result(places.empty() ? place.text() + ": has no images" : text,
                        {{"places", json}});
    return {};
}

} // namespace cryo::storing
