// SPDX-License-Identifier: Apache-2.0
#include "look/proc.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <dirent.h>
#include <fcntl.h>
#include <memory>

namespace cryo::capture {

Result<Fd> Proc::open(std::string_view name, int flags) const
{
    const std::string whole = path(name);
    Fd fd(::open(whole.c_str(), flags | O_CLOEXEC));
    if (!fd)
        return Error::from_errno(whole, errno);
    return fd;
}

namespace {

// Files that the kernel returns in one piece, however long they are: a short read is the end. For
// others a read returns as many lines as fit into a page.
bool is_in_one_piece(std::string_view name)
{
    constexpr std::array<std::string_view, 12> whole = {
        "auxv",          "cmdline",     "comm", "coredump_filter", "environ", "limits",
        "oom_score_adj", "personality", "stat", "statm",           "status",  "syscall"};
    if (name.starts_with("fdinfo/"))
        return true;
    if (name.starts_with("task/"))
        name.remove_prefix(name.rfind('/') + 1);
    return std::ranges::find(whole, name) != whole.end();
}

} // namespace

Result<std::string> Proc::read(std::string_view name) const
{
    Result<Fd> fd = open(name, O_RDONLY);
    if (!fd)
        return fd.error();
    std::string text;
    char buffer[16384];
    ssize_t n;
    do {
        n = ::read(fd->get(), buffer, sizeof(buffer));
        if (n < 0)
            return Error::from_errno(path(name), errno);
        text.append(buffer, static_cast<size_t>(n));
    } while (n == sizeof(buffer) || (n > 0 && !is_in_one_piece(name)));
    return text;
}

Result<std::string> Proc::link(std::string_view name) const
{
    const std::string whole = path(name);
    char target[PATH_MAX];
    const ssize_t n = readlink(whole.c_str(), target, sizeof(target));
    if (n < 0)
        return Error::from_errno(whole, errno);
    return std::string(target, static_cast<size_t>(n));
}

Result<std::vector<int>> Proc::numbers(std::string_view directory) const
{
    const std::string whole = path(directory);
    const std::unique_ptr<DIR, int (*)(DIR *)> dir(opendir(whole.c_str()), closedir);
    if (!dir)
        return Error::from_errno(whole, errno);
    std::vector<int> found;
    while (const dirent *entry = readdir(dir.get())) {
        std::string_view name = entry->d_name;
        if (name.front() >= '0' && name.front() <= '9')
            found.push_back(static_cast<int>(take_number(name)));
    }
    std::sort(found.begin(), found.end());
    return found;
}

std::string_view field(std::string_view text, std::string_view key)
{
    while (!text.empty()) {
        std::string_view line = take_line(text);
        if (line.size() > key.size() && line.substr(0, key.size()) == key &&
            line[key.size()] == ':') {
            line.remove_prefix(key.size() + 1);
            const size_t start = line.find_first_not_of(" \t");
            return start == std::string_view::npos ? std::string_view() : line.substr(start);
        }
    }
    return {};
}

namespace {

void skip_blanks(std::string_view &text)
{
    const size_t n = std::min(text.find_first_not_of(" \t"), text.size());
    text.remove_prefix(n);
}

} // namespace

uint64_t take_number(std::string_view &text, int base)
{
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    skip_blanks(text);
    return error == std::errc() ? value : 0;
}

std::string_view take_word(std::string_view &text)
{
    const size_t n = std::min(text.find_first_of(" \t"), text.size());
    const std::string_view word = text.substr(0, n);
    text.remove_prefix(n);
    skip_blanks(text);
    return word;
}

std::string_view take_line(std::string_view &text)
{
    const size_t n = text.find('\n');
    const std::string_view line = text.substr(0, n);
    text.remove_prefix(n == std::string_view::npos ? text.size() : n + 1);
    return line;
}

} // namespace cryo::capture
