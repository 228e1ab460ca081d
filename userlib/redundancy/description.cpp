// SPDX-License-Identifier: Apache-2.0
#include "redundancy/description.hpp"

#include "base/printable.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace cryo::redundancy {

namespace {

using nlohmann::json;

constexpr uint64_t version = 1;
constexpr size_t most_name = 1024;
constexpr size_t most_step = 250; // of a file's path: written as ".NAME.tmp", which NAME_MAX limits
constexpr size_t checksum_digits = 32;
constexpr int most_depth = 6; // the set, members, a member, files, a file, and one to spare

Error unusable(const std::string &where, std::string_view what)
{
    return {EINVAL, fmt::format("{}: is not a description of a set: {}", where, what)};
}

bool is_text(std::string_view text, size_t most)
{
    const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; };
    return !text.empty() && text.size() <= most && is_utf8(text) &&
           std::ranges::none_of(text, is_control);
}

// A path that leads to no place outside of the member's directory, nor to its parity, nor to a file
// that is being written.
bool is_file_name(std::string_view name)
{
    if (!is_text(name, most_name) || name.substr(0, name.find('/')) == parity_name)
        return false;
    for (size_t at = 0; at <= name.size();) {
        const size_t end = std::min(name.find('/', at), name.size());
        if (end == at || end - at > most_step || name[at] == '.')
            return false;
        at = end + 1;
    }
    return true;
}

bool is_checksum(std::string_view text)
{
    return text.size() == checksum_digits && std::ranges::all_of(text, [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           });
}

Result<void> check_member(const SetMember &member, const std::string &where)
{
    if (!is_text(member.node, most_name))
        return unusable(where, "a node has no name");
    std::set<std::string_view> names;
    uint64_t bytes = 0;
    for (const SetFile &file : member.files) {
        if (!is_file_name(file.name))
            return unusable(where, "a file has a name that no image has");
        if (!names.insert(file.name).second)
            return unusable(where, fmt::format("{} has {} twice", member.node, file.name));
        if (!is_checksum(file.checksum))
            return unusable(where, file.name + " has no checksum");
        if (file.bytes > most_bytes || (bytes += file.bytes) > most_bytes)
            return unusable(where, member.node + " has more bytes than can be");
    }
    return {};
}

// Members of objects, by their name and type.
const std::string *text_in(const json &object, const char *name)
{
    const auto found = object.find(name);
    return found == object.end() ? nullptr : found->get_ptr<const std::string *>();
}

std::optional<uint64_t> number_in(const json &object, const char *name)
{
    const auto found = object.find(name);
    if (found == object.end() || !found->is_number_unsigned())
        return std::nullopt;
    return found->get<uint64_t>();
}

const json *list_in(const json &object, const char *name)
{
    const auto found = object.find(name);
    return found == object.end() || !found->is_array() ? nullptr : &*found;
}

// Anything nested deeper is left out, so that brackets alone cannot take memory many times their
// size.
json parse(std::string_view text)
{
    const auto keep = [](int depth, json::parse_event_t, const json &) {
        return depth <= most_depth;
    };
    return json::parse(text, keep, false);
}

std::optional<SetFile> read_file(const json &object)
{
    const std::string *name = object.is_object() ? text_in(object, "name") : nullptr;
    const std::string *checksum = name ? text_in(object, "checksum") : nullptr;
    const std::optional<uint64_t> bytes = checksum ? number_in(object, "bytes") : std::nullopt;
    if (!bytes)
        return std::nullopt;
    return SetFile{.name = *name, .bytes = *bytes, .checksum = *checksum};
}

std::optional<SetMember> read_member(const json &object, size_t most)
{
    const std::string *node = object.is_object() ? text_in(object, "node") : nullptr;
    const json *files = node ? list_in(object, "files") : nullptr;
    if (!files || files->size() > most)
        return std::nullopt;
    SetMember member{.node = *node, .files = {}};
    for (const json &one : *files) {
        std::optional<SetFile> file = read_file(one);
        if (!file)
            return std::nullopt;
        member.files.push_back(std::move(*file));
    }
    return member;
}

Result<std::vector<SetMember>> read_members(const json &object, const std::string &where)
{
    const json *list = list_in(object, "members");
    if (!list || list->size() > most_members)
        return unusable(where, "it has no members, or too many");
    std::vector<SetMember> members;
    size_t files = 0;
    for (const json &one : *list) {
        std::optional<SetMember> member = read_member(one, most_files - files);
        if (!member)
            return unusable(where, "a member of it is incomplete, or has too many files");
        files += member->files.size();
        members.push_back(std::move(*member));
    }
    return members;
}

json json_of(const SetMember &member)
{
    json files = json::array();
    for (const SetFile &file : member.files)
        files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksum", file.checksum}});
    return {{"node", member.node}, {"files", std::move(files)}};
}

} // namespace

uint64_t SetMember::bytes() const
{
    uint64_t sum = 0;
    for (const SetFile &file : files)
        sum += file.bytes;
    return sum;
}

std::vector<std::string> Description::nodes() const
{
    std::vector<std::string> names;
    for (const SetMember &one : members)
        names.push_back(one.node);
    return names;
}

std::vector<uint64_t> Description::blocks() const
{
    std::vector<uint64_t> counts;
    for (const SetMember &one : members)
        counts.push_back((one.bytes() + block - 1) / block);
    return counts;
}

bool Description::is_same_set(const Description &other) const
{
    return id == other.id && scheme == other.scheme && block == other.block &&
           members == other.members;
}

Result<void> check(const Description &set, const std::string &where)
{
    if (!is_text(set.id, most_name))
        return unusable(where, "it has no id");
    if (set.block < smallest_block || set.block > largest_block || set.block % smallest_block != 0)
        return unusable(where, fmt::format("blocks of {} bytes", set.block));
    if (set.members.size() < fewest_members(set.scheme) || set.members.size() > most_members)
        return unusable(where,
                        fmt::format("{} members, for {}", set.members.size(), text_of(set.scheme)));
    if (set.member >= set.members.size())
        return unusable(where, fmt::format("no member {}", set.member));
    size_t files = 0;
    for (const SetMember &member : set.members) {
        if (Result<void> good = check_member(member, where); !good)
            return good;
        files += member.files.size();
    }
    if (files > most_files)
        return unusable(where, fmt::format("{} files", files));
    return {};
}

std::string write_description(const Description &set)
{
    json members = json::array();
    for (const SetMember &member : set.members)
        members.push_back(json_of(member));
    const json all = {
        {"version", version}, {"id", set.id},         {"redundancy", text_of(set.scheme)},
        {"block", set.block}, {"member", set.member}, {"members", std::move(members)}};
    // A text that is no UTF-8, which check() refuses, would make it throw.
    return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Description> read_description(std::string_view text, const std::string &where)
{
    if (text.size() > most_description)
        return unusable(where, "it is too long");
    const json all = parse(text);
    if (!all.is_object())
        return unusable(where, "it is no JSON object");
    if (const std::optional<uint64_t> is = number_in(all, "version"); !is || *is != version)
        return unusable(where, "its version is not 1; use the release that wrote it");
    const std::string *id = text_in(all, "id");
    const std::string *redundancy = text_in(all, "redundancy");
    const std::optional<uint64_t> block = number_in(all, "block");
    const std::optional<uint64_t> member = number_in(all, "member");
    if (!id || !redundancy || !block || *block > largest_block || !member ||
        *member >= most_members)
        return unusable(where, "a part of it is missing");
    const Result<Scheme> scheme = parse_scheme(*redundancy);
    if (!scheme)
        return scheme.error().within(where);
    Result<std::vector<SetMember>> members = read_members(all, where);
    if (!members)
        return members.error();
    Description set{.id = *id,
                    .scheme = *scheme,
                    .block = static_cast<uint32_t>(*block),
                    .members = std::move(*members),
                    .member = static_cast<uint32_t>(*member)};
    if (Result<void> good = check(set, where); !good)
        return good.error();
    return set;
}

} // namespace cryo::redundancy
