// SPDX-License-Identifier: Apache-2.0
#include "image/tree_directory.hpp"

#include "image/base_finder.hpp"
#include "image/sink.hpp"
#include "image/snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <string_view>
#include <sys/file.h>
#include <sys/statfs.h>
#include <unistd.h>

namespace cryo::image {

namespace {

// The files that may be removed, tree.cryo last; an error if there are any others.
Result<std::vector<std::string>> files_of(const Directory &directory)
{
    const auto unknown = [&](const Error &error) {
        return Error(ENOTEMPTY, fmt::format("{}: its contents cannot be read ({}), so it is not "
                                            "replaced; choose a new directory",
                                            directory.path(), error.text()));
    };
    const std::string tree = directory.path(kTreeFile);
    Fd fd(openat(directory.fd(), kTreeFile, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd && errno == ENOENT)
        return Error(ENOTEMPTY,
                     directory.path() + ": holds other files than images; choose a new directory");
    if (!fd)
        return unknown(Error::from_errno(tree, errno));
    const auto image = Image::open(std::move(fd), tree);
    if (!image)
        return unknown(image.error());
    std::vector<std::pair<std::string, Digest>> members;
    const Result<void> read = (*image)->for_each<Member>([&](const Member &m) {
        if (m.state == MemberState::saved)
            members.emplace_back(m.name, Digest::from_bytes(m.image_id));
    });
    if (!read)
        return unknown(read.error());
    const Result<std::vector<std::string>> names = directory.names();
    if (!names)
        return unknown(names.error());
    std::vector<std::string> files;
    for (const std::string &name : *names) {
        if (name == kTreeFile)
            continue;
        const auto member =
            std::ranges::find(members, name, &std::pair<std::string, Digest>::first);
        const Result<std::optional<Digest>> id = look_for_id(directory, name);
        if (!id)
            return unknown(id.error());
        if (member == members.end() || *id != member->second)
            return Error(ENOTEMPTY, directory.path(name) +
                                        ": is none of the snapshot's images; the "
                                        "directory is not replaced, choose a "
                                        "new one");
        files.push_back(name);
    }
    files.emplace_back(kTreeFile);
    return files;
}

// A name that random_name() gives.
bool is_random_name_of(std::string_view entry, const std::string &name)
{
    const std::string before = fmt::format(".{}.", name.substr(0, 200));
    constexpr std::string_view after = ".tmp";
    constexpr size_t digits = 16;
    return entry.size() == before.size() + digits + after.size() && entry.starts_with(before) &&
           entry.ends_with(after) &&
           entry.substr(before.size(), digits).find_first_not_of("0123456789abcdef") ==
               std::string_view::npos;
}

// Of a directory that has no tree.cryo yet: whether it contains only images, and files that were
// to become images.
bool is_unfinished(const Directory &directory, const std::vector<std::string> &names)
{
    return std::ranges::all_of(names, [&](const std::string &name) {
        const Result<std::optional<struct stat>> status = directory.look(name);
        if (!status || !status->has_value() || !S_ISREG((*status)->st_mode) ||
            (*status)->st_uid != geteuid())
            return false;
        if (is_random_name_of(name, kNewMember) || is_random_name_of(name, kTreeFile))
            return true;
        const Result<std::optional<Digest>> id = look_for_id(directory, name);
        return (name == kNewMember || name.starts_with("context.")) && id && id->has_value();
    });
}

bool is_same(int fd, const Directory &parent, const std::string &name)
{
    struct stat held;
    const Result<std::optional<struct stat>> named = parent.look(name);
    return fstat(fd, &held) == 0 && named && named->has_value() &&
           (*named)->st_dev == held.st_dev && (*named)->st_ino == held.st_ino;
}

} // namespace

// Until it is held, a checkpoint into the same directory may remove it.
Result<Building> make_building(const Directory &parent, const std::string &name)
{
    constexpr int most_tries = 100;
    for (int i = 0; i < most_tries; i++) {
        Building built = {random_name(name), {}};
        const Result<Directory> made = parent.make(built.name);
        if (!made && made.error().code() == EEXIST)
            continue;
        if (!made && made.error().code() == ENOENT && i + 1 < most_tries)
            continue; // removed before it could be opened
        if (!made) {
            static_cast<void>(parent.remove(built.name));
            return made.error();
        }
        built.lock = Fd(fcntl(made->fd(), F_DUPFD_CLOEXEC, 0));
        if (!built.lock) {
            const Error why = Error::from_errno(parent.path(built.name), errno);
            static_cast<void>(parent.remove(built.name));
            return why;
        }
        const bool is_taken =
            flock(built.lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!is_taken && is_same(built.lock.get(), parent, built.name))
            return built;
        static_cast<void>(parent.remove(built.name));
    }
    return Error(EEXIST, parent.path(name) + ": no hidden name beside it is free");
}

Fd hold_directory(const Directory &parent, const std::string &name)
{
    Fd fd(openat(parent.fd(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd)
        flock(fd.get(), LOCK_EX | LOCK_NB); // if another process holds it, that is enough
    return fd;
}

bool has_locks_for_all(long type)
{
    constexpr long zfs = 0x2fc12fc1;
    constexpr long local[] = {
        EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,       BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
        RAMFS_MAGIC,      OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,  zfs};
    return std::ranges::find(local, type) != std::end(local);
}

void remove_left_over(const Directory &parent, const std::string &name)
{
    struct statfs system;
    const Result<std::vector<std::string>> all = parent.names();
    if (!all || fstatfs(parent.fd(), &system) != 0 || !has_locks_for_all(system.f_type))
        return;
    for (const std::string &entry : *all) {
        const Result<Directory> left =
            is_random_name_of(entry, name) ? parent.enter(entry) : Error(ENOENT, entry);
        struct stat status;
        if (!left || fstat(left->fd(), &status) != 0 || status.st_uid != geteuid() ||
            flock(left->fd(), LOCK_EX | LOCK_NB) != 0)
            continue;
        const Result<std::vector<std::string>> inside = left->names();
        if (!inside)
            continue;
        if (std::ranges::find(*inside, kTreeFile) != inside->end()) {
            static_cast<void>(remove_tree_directory(parent, entry));
        } else if (is_unfinished(*left, *inside)) {
            for (const std::string &one : *inside)
                static_cast<void>(left->remove(one));
            static_cast<void>(parent.remove(entry));
        }
    }
}

Result<void> check_tree_directory(const Directory &parent, const std::string &name)
{
    const Result<Directory> directory = parent.enter(name);
    if (!directory)
        return directory.error();
    const Result<std::vector<std::string>> files = files_of(*directory);
    return files ? Result<void>() : files.error();
}

Result<void> remove_tree_directory(const Directory &parent, const std::string &name)
{
    const Result<Directory> directory = parent.enter(name);
    if (!directory)
        return directory.error();
    const Result<std::vector<std::string>> files = files_of(*directory);
    if (!files)
        return files.error();
    for (const std::string &file : *files) {
        if (Result<void> gone = directory->remove(file); !gone)
            return gone;
    }
    return parent.remove(name);
}

} // namespace cryo::image
