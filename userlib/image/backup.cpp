// SPDX-License-Identifier: Apache-2.0
// Keeps an image that is about to be replaced, under a name of its own.
#include "image/sink.hpp"

#include "base/directory.hpp"
#include "image/base_finder.hpp"
#include "image/tree_directory.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
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

// The numbers of all backups of `name`, ascending.
Result<std::vector<unsigned>> numbers(const Directory &directory, const std::string &name)
{
    const Result<std::vector<std::string>> all = directory.names();
    if (!all)
        return all.error().within("looking for backups of " + name);
    std::vector<unsigned> found;
    for (const std::string &entry : *all) {
        if (const unsigned number = number_of(entry, name); number != 0)
            found.push_back(number);
    }
    std::ranges::sort(found);
    return found;
}

// Removes an image or a directory of images; anything else that has such a name is left alone.
Result<void> remove_backup(const Directory &directory, const std::string &name)
{
    const Result<std::optional<struct stat>> status = directory.look(name);
    if (!status)
        return status.error();
    if (!status->has_value())
        return {};
    if (S_ISDIR((*status)->st_mode))
        return remove_tree_directory(directory, name);
    const Result<std::optional<Digest>> id = look_for_id(directory, name);
    if (!id)
        return id.error();
    return id->has_value() ? directory.remove(name) : Result<void>();
}

// Removes the previous backup, which has the name that the caller chose.
Result<void> remove_named(const std::string &path)
{
    const auto [parent, name] = split_path(path);
    const Result<Directory> directory = Directory::open(parent + "/.");
    if (!directory)
        return directory.error();
    const Result<std::optional<Digest>> id = look_for_id(*directory, name);
    if (!id)
        return id.error().code() == ENOENT ? Result<void>() : id.error();
    if (!id->has_value())
        return Error(EEXIST, path +
                                 ": is no image, and is not replaced by a backup; choose another "
                                 "name");
    return directory->remove(name);
}

} // namespace

Result<std::string> next_backup(int descriptor, const std::string &name, unsigned keep)
{
    const Result<Directory> directory = Directory::of(descriptor, "where " + name + " is");
    if (!directory)
        return directory.error();
    Result<std::vector<unsigned>> found = numbers(*directory, name);
    if (!found)
        return found.error();
    const unsigned next = found->empty() ? 1 : found->back() + 1;
    // The caller is about to add one more.
    for (size_t i = 0; keep != 0 && i + keep <= found->size(); i++) // what cannot be removed stays
        static_cast<void>(remove_backup(*directory, numbered(name, (*found)[i])));
    return numbered(name, next);
}

Result<void> link_backup(int directory, const std::string &name, const Backup &backup)
{
    struct stat st;
    if (fstatat(directory, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? Result<void>() // nothing to keep
                               : Error::from_errno(name, errno);
    const bool given = !backup.name.empty();
    std::string to = backup.name;
    for (;;) {
        if (!given) {
            Result<std::string> next = next_backup(directory, name, backup.keep);
            if (!next)
                return next.error();
            to = *next;
        } else if (Result<void> gone = remove_named(to); !gone) {
            return gone;
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
