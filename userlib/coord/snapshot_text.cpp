// SPDX-License-Identifier: Apache-2.0
#include "coord/snapshot_text.hpp"

#include "coord/image_copy.hpp"
#include "image/checksum.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

namespace cryo::coord {

namespace {

constexpr const char *component = "cryo";
constexpr size_t usual_lines = 192; // bytes of those about one image
constexpr std::string_view format_line = "#\n# Cryo Format: 2\n";
// With deltas: releases that do not know of them refuse it, and so remove nothing that is needed.
constexpr std::string_view deltas_line = "#\n# Cryo Format: 3\n";
// With snapshots whose ranks are counted, which releases that do not know of them take for empty.
constexpr std::string_view counted_line = "#\n# Cryo Format: 4\n";
constexpr uint32_t most_counted = 1U << 20; // ranks; more than any job has
constexpr std::string_view counted_key = "Cryo Ranks";
constexpr std::string_view counted_bytes_key = "Cryo Ranks Bytes";
constexpr std::string_view checksum_key = "# Cryo Checksum: ";
constexpr std::string_view image_checksum_key = "Cryo Image Checksum";
constexpr std::string_view local_key = "Cryo Local";
constexpr std::string_view redundancy_key = "Cryo Redundancy";
constexpr std::string_view set_key = "Cryo Set";
constexpr std::string_view needs_key = "Cryo Needs";
constexpr std::string_view series_key = "Cryo Series";
constexpr std::string_view process_key = "# Process: ";
// Of lines of a snapshot that come after those of its images.
constexpr std::string_view after_images[] = {redundancy_key, set_key, "Timestamp", "Finished Seq",
                                             "Cryo Checksum"};

template <class T>
bool read_number(std::string_view text, T &value)
{
    const char *end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && stop == end;
}

// Replaces control characters, so that a name cannot add a line.
std::string one_line(std::string text)
{
    std::ranges::replace_if(
        text, [](unsigned char c) { return c < ' ' || c == 127; }, '?');
    return text;
}

std::string checksum_of(std::string_view text)
{
    return image::checksum128({reinterpret_cast<const uint8_t *>(text.data()), text.size()}).hex();
}

// "# Key: value"; false: the line has another form.
bool split_line(std::string_view line, std::string_view &key, std::string_view &value)
{
    const size_t colon = line.find(": ");
    if (!line.starts_with("# ") || colon == std::string_view::npos)
        return false;
    key = line.substr(2, colon - 2);
    value = line.substr(colon + 2);
    return true;
}

std::vector<std::string> words_of(std::string_view value)
{
    const auto read = nlohmann::json::parse(value, nullptr, false);
    std::vector<std::string> words;
    for (const auto &word : read) {
        if (!word.is_string())
            return {};
        words.push_back(word.get<std::string>());
    }
    return words;
}

// Numbers of snapshots.
bool read_needs(std::string_view value, std::vector<int> &needs)
{
    const auto read = nlohmann::json::parse(value, nullptr, false);
    if (!read.is_array() || read.empty())
        return false;
    for (const auto &one : read) {
        if (!one.is_number_unsigned() || one.get<uint64_t>() > INT_MAX)
            return false;
        needs.push_back(one.get<int>());
    }
    return true;
}

std::string needs_line(const SnapshotImage &image)
{
    return image.needs.empty()
               ? ""
               : fmt::format("# {}: [{}]\n", needs_key, fmt::join(image.needs, ","));
}

// One line about an image; false: its value is impossible.
bool read_image_line(std::string_view key, std::string_view value, SnapshotImage &image)
{
    if (key == "Cryo PID")
        return read_number(value, image.pid);
    if (key == "Cryo Bytes")
        return read_number(value, image.bytes);
    if (key == "Cryo Node")
        image.node = value;
    if (key == "Cryo Context") {
        image.file = value;
        return is_plain_name(value);
    }
    if (key == image_checksum_key) {
        image.checksum = value;
        return is_image_checksum(value);
    }
    if (key == needs_key)
        return read_needs(value, image.needs);
    if (key == local_key)
        image.local = value;
    return true;
}

// About the copy that an image's node has.
std::string local_lines(const SnapshotImage &image)
{
    return image.local.empty() ? ""
                               : fmt::format("# {}: {}\n# {}: {}\n", image_checksum_key,
                                             image.checksum, local_key, one_line(image.local));
}

std::string_view next_line(std::string_view &rest)
{
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    return line;
}

// The lines of a snapshot's images, at the beginning of what is left of the text. Few lines come
// after them, and then the next snapshot.
std::string_view images_in(std::string_view rest)
{
    std::string_view block = rest.substr(0, rest.find("\n#\n# Seq: "));
    block = rest.substr(0, block.size() + 1);
    const auto is_after = [](std::string_view line) {
        return line == "#\n" || std::ranges::any_of(after_images, [&](std::string_view key) {
                   return line.starts_with("# ") && line.substr(2).starts_with(key) &&
                          line.substr(2 + key.size()).starts_with(": ");
               });
    };
    for (;;) {
        const size_t before = block.substr(0, block.size() - 1).rfind('\n');
        if (before == std::string_view::npos || !is_after(block.substr(before + 1)))
            return block;
        block = block.substr(0, before + 1);
    }
}

// The set's id, and its nodes.
bool read_set(std::string_view value, Snapshot &snapshot)
{
    std::vector<std::string> words = words_of(value);
    if (words.size() < 2)
        return false;
    SnapshotSet &set = snapshot.sets.emplace_back();
    set.id = std::move(words.front());
    words.erase(words.begin());
    set.nodes = std::move(words);
    return true;
}

std::string words_text(const std::vector<std::string> &words)
{
    return nlohmann::json(words).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string set_lines(const Snapshot &snapshot)
{
    if (snapshot.redundancy.empty())
        return "";
    std::string text = fmt::format("# {}: {}\n", redundancy_key, one_line(snapshot.redundancy));
    for (const SnapshotSet &set : snapshot.sets) {
        std::vector<std::string> words = set.nodes;
        words.insert(words.begin(), set.id);
        text += fmt::format("# {}: {}\n", set_key, words_text(words));
    }
    return text;
}

bool read_line(std::string_view key, std::string_view value, Snapshot &snapshot)
{
    if (key == "Process") {
        SnapshotImage &image = snapshot.images.emplace_back();
        return read_number(value.substr(value.find('.') + 1), image.rank);
    }
    if (key == "Finished Seq") {
        snapshot.finished = seq_of(value) == snapshot.seq;
        return snapshot.finished;
    }
    if (key == "Cryo Launcher")
        return read_number(value, snapshot.launcher);
    if (key == "Timestamp")
        (snapshot.started.empty() ? snapshot.started : snapshot.completed) = value;
    else if (key == "Cryo Mark")
        snapshot.mark = value;
    else if (key == "Cryo Job")
        snapshot.job = value;
    else if (key == series_key)
        snapshot.series = value;
    else if (key == "Cryo Directory")
        snapshot.directory = value;
    else if (key == "Cryo Command")
        snapshot.command = words_of(value);
    else if (key == counted_key)
        return read_number(value, snapshot.counted) && snapshot.counted <= most_counted;
    else if (key == counted_bytes_key)
        return read_number(value, snapshot.counted_bytes);
    else if (key == redundancy_key)
        snapshot.redundancy = value;
    else if (key == set_key)
        return read_set(value, snapshot);
    else if (!snapshot.images.empty())
        return read_image_line(key, value, snapshot.images.back());
    return true;
}

// Fails if the text is cut short, or was changed.
Result<void> check_whole(const std::string &text)
{
    const size_t at = text.rfind(checksum_key);
    if (at == std::string::npos || text.back() != '\n')
        return Error(EBADMSG, "it is cut short");
    const size_t from = at + checksum_key.size();
    if (text.substr(from, text.size() - from - 1) !=
        checksum_of(std::string_view(text).substr(0, at)))
        return Error(EBADMSG, "it is damaged (checksum)");
    return {};
}

void add_lines(const Snapshot &s, const SnapshotImage &image, std::string &text)
{
    fmt::format_to(std::back_inserter(text),
                   "{}{}.{}\n# OPAL CRS Component: {}\n# Cryo PID: {}\n# Cryo Node: {}\n"
                   "# Cryo Context: {}\n# Cryo Bytes: {}\n",
                   process_key, s.launcher, image.rank, component, image.pid, one_line(image.node),
                   image.file, image.bytes);
    if (!image.needs.empty())
        text += needs_line(image);
    if (!image.local.empty())
        text += local_lines(image);
}

std::string block(const Snapshot &s)
{
    std::string text = fmt::format("#\n# Seq: {}\n# AMCA: \n", s.seq);
    text += "# Local Snapshot Format Reference: opal_snapshot_%d.ckpt\n";
    text += fmt::format("# Timestamp: {}\n", s.started);
    if (!s.mark.empty())
        text += fmt::format("# Cryo Mark: {}\n", s.mark);
    text += fmt::format("# Cryo Job: {}\n# Cryo Launcher: {}\n# Cryo Directory: {}\n",
                        one_line(s.job), s.launcher, one_line(s.directory));
    if (!s.series.empty())
        text += fmt::format("# {}: {}\n", series_key, one_line(s.series));
    text += fmt::format("# Cryo Command: {}\n", words_text(s.command));
    if (s.counted != 0) {
        text += fmt::format("# {}: {}\n# {}: {}\n", counted_key, s.counted, counted_bytes_key,
                            s.counted_bytes);
    } else {
        text.reserve(text.size() + s.unread.size() + s.images.size() * usual_lines);
        text += s.unread;
        for (const SnapshotImage &image : s.images)
            add_lines(s, image, text);
    }
    text += set_lines(s);
    if (!s.completed.empty())
        text += fmt::format("# Timestamp: {}\n", s.completed);
    if (s.finished)
        text += fmt::format("# Finished Seq: {}\n", s.seq);
    return text;
}

} // namespace

void Snapshot::read()
{
    const std::string text = std::exchange(unread, {});
    for (std::string_view rest = text; !rest.empty();) {
        std::string_view key;
        std::string_view value;
        if (split_line(next_line(rest), key, value))
            static_cast<void>(read_line(key, value, *this)); // the checksum is that of the whole
    }
}

int seq_of(std::string_view name)
{
    int seq = -1;
    const bool plain = !name.empty() && name.front() >= '0' && name.front() <= '9' &&
                       (name.size() == 1 || name.front() != '0');
    return plain && read_number(name, seq) ? seq : -1;
}

bool is_plain_name(std::string_view name)
{
    return !name.empty() && name.front() != '.' && std::ranges::all_of(name, [](unsigned char c) {
        return c >= ' ' && c != 127 && c != '/';
    });
}

Result<std::map<int, Snapshot>> parse_metadata(const std::string &text, Depth depth)
{
    const bool has_checksum = text.starts_with(format_line) || text.starts_with(deltas_line) ||
                              text.starts_with(counted_line);
    if (has_checksum) {
        if (Result<void> whole = check_whole(text); !whole)
            return whole.error();
    }
    std::map<int, Snapshot> all;
    Snapshot *current = nullptr; // which the lines are of
    const bool skips = depth == Depth::heads && text.starts_with(format_line);
    for (std::string_view rest = text; !rest.empty();) {
        if (skips && current != nullptr && rest.starts_with(process_key)) {
            current->unread = images_in(rest);
            rest.remove_prefix(current->unread.size());
            continue;
        }
        const std::string_view line = next_line(rest);
        std::string_view key;
        std::string_view value;
        if (!split_line(line, key, value))
            continue;
        if (!has_checksum && (key == "Cryo Mark" || key == "Cryo Checksum"))
            return Error(EBADMSG, "it is damaged (the beginning is missing)");
        if (key == "Seq") {
            const int seq = seq_of(value);
            const auto [at, is_new] = all.emplace(seq, Snapshot{.seq = seq});
            if (seq < 0 || !is_new)
                return Error(EBADMSG, fmt::format("it names a snapshot '{}'", value));
            current = &at->second;
        } else if (current != nullptr && !read_line(key, value, *current)) {
            return Error(EBADMSG, fmt::format("snapshot {} has an impossible line '{}'",
                                              current->seq, line));
        }
    }
    // Old metadata always named snapshots, and only finished ones.
    const auto is_finished = [](const auto &one) { return one.second.finished; };
    if (!has_checksum && (all.empty() || !std::ranges::all_of(all, is_finished)))
        return Error(EBADMSG, "it is cut short");
    return all;
}

std::string metadata_text(const std::map<int, Snapshot> &all)
{
    const bool has_deltas = std::ranges::any_of(
        all, [](const auto &one) { return one.second.finished && !one.second.needs().empty(); });
    const bool has_counted = std::ranges::any_of(
        all, [](const auto &one) { return one.second.finished && one.second.counted != 0; });
    std::string text(has_counted ? counted_line : has_deltas ? deltas_line : format_line);
    for (const auto &[seq, snapshot] : all)
        text += block(snapshot);
    const std::string checksum = checksum_of(text);
    text.append(checksum_key).append(checksum) += '\n';
    return text;
}

std::string local_metadata_text(const SnapshotImage &image)
{
    return fmt::format("#\n# PID: {}\n# OPAL CRS Component: {}\n# CONTEXT: {}\n# Cryo Bytes: {}\n",
                       image.pid, component, image.file, image.bytes) +
           (image.is_counted ? fmt::format("# Cryo Node: {}\n", one_line(image.node)) : "") +
           needs_line(image) + local_lines(image);
}

bool read_local_metadata(const std::string &text, SnapshotImage &image)
{
    for (std::string_view rest = text; !rest.empty();) {
        std::string_view key;
        std::string_view value;
        if (!split_line(next_line(rest), key, value))
            continue;
        if (key == "PID")
            key = "Cryo PID";
        else if (key == "CONTEXT")
            key = "Cryo Context";
        if (!read_image_line(key, value, image))
            return false;
    }
    return is_plain_name(image.file);
}

std::optional<LocalCopy> local_copy_in(const std::string &text)
{
    LocalCopy copy;
    bool has_bytes = false;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        std::string_view key;
        std::string_view value;
        if (!split_line(line, key, value))
            continue;
        if (key == "CONTEXT")
            copy.file = value;
        else if (key == "Cryo Bytes")
            has_bytes = read_number(value, copy.bytes);
        else if (key == image_checksum_key)
            copy.checksum = value;
        else if (key == local_key)
            copy.directory = value;
    }
    if (!has_bytes || !copy.directory.starts_with('/') || !is_plain_name(copy.file) ||
        !is_image_checksum(copy.checksum))
        return std::nullopt;
    return copy;
}

Result<std::string> context_in(const std::string &text)
{
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        std::string_view key;
        std::string_view value;
        if (!split_line(line, key, value) || key != "CONTEXT")
            continue;
        if (!is_plain_name(value))
            return Error(EBADMSG,
                         fmt::format("names the context '{}', which is no file beside it", value));
        return std::string(value);
    }
    return Error(ENOENT, "names no context");
}

} // namespace cryo::coord
