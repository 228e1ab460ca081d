// SPDX-License-Identifier: Apache-2.0
// cr_store: keeps images and snapshots in object stores with the interface of Amazon S3.
#include "cli/command.hpp"
#include "cli/text.hpp"
#include "verbs.hpp"

#include "base/path.hpp"
#include "store/found.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace cryo::storing {

namespace {

using store::Client;
using store::Contents;
using store::Location;
using store::Manifest;
using store::Settings;

constexpr uint64_t check_patience = 5; // seconds; while a program waits to be saved

std::string what_is_in(const Manifest &manifest)
{
    return fmt::format("{}, {}, {}", store::name_of(manifest.kind),
                       cli::count_text(manifest.files.size(), "file", "files"),
                       cli::size_text(manifest.bytes()));
}

cli::Json json_of(const Location &place, const Manifest &manifest)
{
    return {{"place", place.text()},
            {"kind", store::name_of(manifest.kind)},
            {"name", manifest.name},
            {"files", manifest.files.size()},
            {"bytes", manifest.bytes()}};
}

Error with_way_out(const Error &error, const std::string &text)
{
    const bool may_go_on = error.code() == EAGAIN || error.code() == ETIMEDOUT ||
                           error.code() == ECONNREFUSED || error.code() == ECONNRESET ||
                           error.code() == EHOSTUNREACH;
    return may_go_on ? error.with_more(text) : error;
}

Result<void> push(Options &options, const Settings &settings, Location place)
{
    const Result<Contents> contents = store::contents_of(options.file);
    if (!contents)
        return contents.error();
    if (options.place.ends_with('/') || place.key.empty())
        place = place.within(contents->name);
    const Result<store::Pushed> done =
        store::push(*contents, place, settings, move_options(options, place.text()));
    if (!done && options.lines)
        return done.error(); // the command that is ours knows the way out
    if (!done)
        return with_way_out(done.error(), "; the same command again sends what is missing");
    options.talk.notices(done->notices);
    cli::Json json = json_of(place, done->manifest);
    json["sent"] = done->sent;
    const std::string there =
        done->sent == done->manifest.bytes()
            ? ""
            : fmt::format(" ({} sent, the rest was there)", cli::size_text(done->sent));
    options.talk.result(fmt::format("{}: {}{}", place.text(), what_is_in(done->manifest), there),
                        json);
    return {};
}

// `place` becomes that of the last one of a series, if its latest is meant.
Result<Manifest> manifest_at(const Options &options, const Settings &settings, Location &place)
{
    Client client(settings, terms_of(options));
    Result<Manifest> manifest = Manifest::read(client, place);
    if (manifest || manifest.error().code() != ENOENT)
        return manifest;
    if (const Result<Location> last = last_of_series(client, place)) {
        place = *last;
        return Manifest::read(client, place);
    }
    return manifest.error().with_more("; `cr_store list` shows what is complete");
}

Result<void> pull(Options &options, const Settings &settings, Location place)
{
    const Result<Manifest> manifest = manifest_at(options, settings, place);
    if (!manifest)
        return manifest.error();
    std::string directory = absolute_path(options.directory);
    if (directory.ends_with('/'))
        directory.pop_back();
    Result<void> done =
        store::pull(*manifest, place, directory, settings, move_options(options, place.text()));
    if (!done)
        return done;
    const std::string path = manifest->root.empty() ? directory : directory + "/" + manifest->root;
    cli::Json json = json_of(place, *manifest);
    json["path"] = path;
    options.talk.result(fmt::format("{}: {}", path, what_is_in(*manifest)), json);
    return {};
}

Result<void> verify(Options &options, const Settings &settings, Location place)
{
    const Result<Manifest> manifest = manifest_at(options, settings, place);
    if (!manifest)
        return manifest.error();
    Result<void> done =
        store::verify(*manifest, place, settings, move_options(options, place.text()));
    if (done)
        options.talk.result(
            fmt::format("{}: as it was saved: {}", place.text(), what_is_in(*manifest)),
            json_of(place, *manifest));
    return done;
}

// No right is tried out but that to read.
Result<void> check(Options &options, const Settings &settings, const Location &place)
{
    if (options.connect) {
        Client client(settings, {.patience = std::chrono::seconds(
                                     std::min(options.patience, check_patience))});
        const Location manifest = place.within(store::manifest_name);
        const Result<std::string> there = client.read(manifest, store::largest_manifest);
        if (!there && there.error().code() != ENOENT)
            return there.error();
        // Whether it is the bucket that is missing: there may be no right to a list.
        const Result<std::vector<store::StoredObject>> listed = client.list(manifest);
        if (!there && !listed && listed.error().code() != EACCES)
            return listed.error();
    }
    options.talk.result(place.text(), {{"place", place.text()}});
    return {};
}

Result<void> work(Options &options)
{
    const Result<Location> place = Location::parse(options.place);
    if (!place)
        return place.error();
    if (place->key.empty() && options.verb != Verb::push && options.verb != Verb::list &&
        options.verb != Verb::check)
        return Error(EINVAL, place->text() + ": is a bucket; name what is in it");
    const Result<Settings> settings = Settings::from_environment();
    if (!settings)
        return settings.error();
    switch (options.verb) {
    case Verb::push:
        return push(options, *settings, *place);
    case Verb::pull:
        return pull(options, *settings, *place);
    case Verb::list:
        return list(options, *settings, *place);
    case Verb::verify:
        return verify(options, *settings, *place);
    case Verb::remove:
        return remove(options, *settings, *place);
    case Verb::check:
        return check(options, *settings, *place);
    }
    return {};
}

int run(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); // a file that may not grow is an error like any other
    Options options;
    if (std::optional<int> done = parse(argc, argv, options))
        return *done;
    const Result<void> done = work(options);
    return done ? 0 : options.talk.fail(done.error());
}

} // namespace

} // namespace cryo::storing

int main(int argc, char **argv)
{
    return cryo::cli::whole(cryo::storing::command, [&] { return cryo::storing::run(argc, argv); });
}
