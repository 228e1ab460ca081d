// SPDX-License-Identifier: Apache-2.0
#include "store/manifest.hpp"

#include "image/checksum.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/utsname.h>
#include <time.h>

namespace cryo::store {

namespace {

using Json = nlohmann::ordered_json;

constexpr int format = 1;
constexpr int most_depth = 8;
constexpr std::array kinds = {Kind::image, Kind::directory, Kind::snapshot};
constexpr uint64_t largest_file = uint64_t(1) << 62;

std::string checksum_of(const std::string &text)
{
    return image::checksum128({reinterpret_cast<const uint8_t *>(text.data()), text.size()}).hex();
}

bool is_checksum(std::string_view text)
{
    return text.size() == 32 &&
           text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Error odd(std::string_view what)
{
    return {EPROTO, fmt::format("{}: {}", manifest_name, what)};
}

Result<Manifest> manifest_of(const Json &json)
{
    Manifest made;
    const std::string kind = json.at("kind").get<std::string>();
    const auto *const known = std::ranges::find(kinds, std::string_view(kind), name_of);
    if (known == kinds.end())
        return odd("names a kind that is not known");
    made.kind = *known;
    made.name = json.at("name").get<std::string>();
    made.root = json.at("root").get<std::string>();
    made.host = json.at("host").get<std::string>();
    made.pushed_ns = json.at("pushed_ns").get<int64_t>();
    std::set<std::string> names;
    for (const Json &one : json.at("files")) {
        StoredFile file{one.at("name").get<std::string>(), one.at("bytes").get<uint64_t>(),
                        one.at("checksum").get<std::string>()};
        if (!is_safe_name(file.name) || !names.insert(file.name).second ||
            file.bytes > largest_file || !is_checksum(file.checksum))
            return odd("names a file that is not a file of an image");
        made.files.push_back(std::move(file));
    }
    const bool has_root = made.kind == Kind::image;
    if (!is_safe_name(made.name) || made.name.find('/') != std::string::npos ||
        (has_root ? !names.contains(made.root) : !made.root.empty()))
        return odd("does not say which file is the image");
    return made;
}

} // namespace

Location StoredFile::object(const Location &place) const
{
    return place.within(fmt::format("{}{}-{}", files_name, checksum, bytes));
}

uint64_t Manifest::bytes() const
{
    uint64_t sum = 0;
    for (const StoredFile &file : files)
        sum += file.bytes;
    return sum;
}

std::string Manifest::text() const
{
    Json list = Json::array();
    for (const StoredFile &file : files)
        list.push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksum", file.checksum}});
    Json json = {{"cryo", format}, {"kind", name_of(kind)},  {"name", name}, {"root", root},
                 {"host", host},   {"pushed_ns", pushed_ns}, {"files", list}};
    json["checksum"] = checksum_of(json.dump());
    return json.dump() + "\n";
}

Result<std::string> Manifest::text_of_push(const std::string &place)
{
    utsname machine = {};
    uname(&machine);
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    host = machine.nodename;
    pushed_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec;
    std::string made = text();
    if (made.size() > largest_manifest)
        return Error(EFBIG, place + ": has too many files");
    return made;
}

Result<Manifest> Manifest::parse(const std::string &text)
{
    // Of one that is nested deeply, the checksum would be computed deeply, too.
    bool is_flat = true;
    const Json::parser_callback_t look = [&](int depth, Json::parse_event_t, const Json &) {
        is_flat = is_flat && depth <= most_depth;
        return is_flat;
    };
    Json json = Json::parse(text, look, false);
    if (!is_flat || !json.is_object() || !json.contains("cryo"))
        return Error(EBADMSG, fmt::format("{}: is damaged, or not Cryo's", manifest_name));
    try {
        if (json.at("cryo") != format)
            return Error(ENOTSUP,
                         fmt::format("{}: was written by a later release of Cryo", manifest_name));
        const std::string checksum = json.at("checksum").get<std::string>();
        json.erase("checksum");
        if (checksum_of(json.dump()) != checksum)
            return Error(EBADMSG,
                         fmt::format("{}: is damaged: its checksum is another one", manifest_name));
        return manifest_of(json);
    } catch (const Json::exception &) {
        return odd("lacks something, or is damaged");
    }
}

} // namespace cryo::store
