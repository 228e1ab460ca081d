// SPDX-License-Identifier: Apache-2.0
// What becomes of an image that is replaced: it stays under a name of its own.
#include "image/sink.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <vector>

namespace cryo::image {

namespace {

// The N of "NAME.~N~", or 0.
unsigned number_of(std::string_view entry, const std::string &name)
{
    const std::string before = name + ".~";
    if (entry.size() < before.size() + 2 || entry.substr(0, before.size()) != before ||
        entry.back() != '~')
        return 0;
    entry = entry.substr(before.size(), entry.size() - before.size() - 1);
    unsigned number = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
    return error == std::errc() && end == entry.data() + entry.size() ? number : 0;
}

std::string numbered(const std::string &name, unsigned number)
{
    return fmt::format("{}.~{}~", name, number);
}

// Ascending.
Result<std::vector<unsigned>> numbers(int directory, const std::string &name)
{
    const int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = copy >= 0 ? fdopendir(copy) : nullptr;
    if (entries == nullptr)
        return Error::from_errno("looking for backups of " + name, errno);
    std::vector<unsigned> found;
    while (const dirent *entry = readdir(entries)) {
        if (const unsigned number = number_of(entry->d_name, name); number != 0)
            found.push_back(number);
    }
    closedir(entries);
    std::ranges::sort(found);
    return found;
}

} // namespace

Result<std::string> next_backup(int directory, const std::string &name, unsigned keep)
{
    Result<std::vector<unsigned>> found = numbers(directory, name);
    if (!found)
        return found.error();
    const unsigned next = found->empty() ? 1 : found->back() + 1;
    // One more is about to come.
    for (size_t i = 0; keep != 0 && i + keep <= found->size(); i++) {
        std::error_code left; // what cannot be removed stays
        std::filesystem::remove_all(
            fmt::format("/proc/self/fd/{}/{}", directory, numbered(name, (*found)[i])), left);
    }
    return numbered(name, next);
}

Result<void> link_backup(int directory, const std::string &name, const Backup &backup)
{
    struct stat st;
    if (fstatat(directory, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
        return {}; // nothing to be kept
    const bool given = !backup.name.empty();
    std::string to = backup.name;
    for (;;) {
        if (!given) {
            Result<std::string> next = next_backup(directory, name, backup.keep);
            if (!next)
                return next.error();
            to = *next;
        } else if (unlinkat(AT_FDCWD, to.c_str(), 0) != 0 && errno != ENOENT) {
            return Error::from_errno("replacing the backup " + to, errno);
        }
        // The image keeps its own name until the new one takes it.
        const int where = given ? AT_FDCWD : directory;
        if (linkat(directory, name.c_str(), where, to.c_str(), 0) == 0)
            return {};
        if (errno == EPERM || errno == EOPNOTSUPP) { // a file system without links
            if (renameat(directory, name.c_str(), where, to.c_str()) == 0)
                return {};
        }
        if (errno != EEXIST)
            return Error::from_errno(fmt::format("keeping {} as {}", name, to), errno);
    }
}

} // namespace cryo::image
