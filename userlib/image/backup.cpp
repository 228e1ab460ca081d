// SPDX-License-Identifier: Apache-2.0
// Keeps an image that is about to be replaced, under a name of its own.
#include "image/sink.hpp"

#include "base/directory.hpp"
#include "image/base_finder.hpp"
#include "image/snapshot.hpp"
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

bool has(const std::vector<Digest> &ids, const Digest &id)
{
    return std::ranges::find(ids, id) != ids.end();
}

Result<std::unique_ptr<Snapshot>> open_in(const Directory &directory, const std::string &name)
{
    const std::string path = fmt::format("/proc/self/fd/{}/{}", directory.fd(), name);
    return Snapshot::open(path, {.find_base = BaseFinder().beside(path)});
}

// Whether what has this name holds one of these images; empty: it cannot be read.
std::optional<bool> holds(const Directory &directory, const std::string &name,
                          const std::vector<Digest> &ids)
{
    const Result<std::unique_ptr<Snapshot>> snapshot = open_in(directory, name);
    if (!snapshot)
        return std::nullopt;
    return std::ranges::any_of((*snapshot)->members(),
                               [&](const SnapshotMember &member) { return has(ids, member.id); });
}

bool is_member(const Snapshot &snapshot, const Digest &id)
{
    return std::ranges::any_of(snapshot.members(),
                               [&](const SnapshotMember &member) { return member.id == id; });
}

// Adds the images that those of this name need, as far as they are found beside it. False: an
// image cannot be read, so some may be missing.
bool add_needed(const Directory &directory, const std::string &name, std::vector<Digest> &ids)
{
    const Result<std::unique_ptr<Snapshot>> snapshot = open_in(directory, name);
    if (!snapshot) { // anything but an image needs none
        const Result<std::optional<struct stat>> status = directory.look(name);
        if (status && status->has_value() && S_ISDIR((*status)->st_mode))
            return snapshot.error().code() == ENOENT;
        const Result<std::optional<Digest>> id = look_for_id(directory, name);
        return id && !id->has_value();
    }
    for (const SnapshotMember &member : (*snapshot)->members()) {
        if (member.state != MemberState::saved)
            continue;
        const Result<std::unique_ptr<Image>> image = (*snapshot)->open_member(member);
        if (!image)
            return false;
        Image *at = image->get();
        for (unsigned steps = 0;
             steps < kMaxDeltaDepth && at->header().is_delta() && !has(ids, at->header().base_id);
             steps++) {
            if (!is_member(**snapshot, at->header().base_id)) // a fork's, of its parent
                ids.push_back(at->header().base_id);
            const Result<Image *> base = at->base();
            if (!base && base.error().code() != ENOENT)
                return false;
            if (!base)
                break;
            at = *base;
        }
    }
    return true;
}

// The previous backup keeps its name until the new one can take it.
Result<void> link_named(int directory, const std::string &name, const Backup &backup)
{
    if (Result<void> may = check_backup(directory, name, backup); !may)
        return may;
    const auto [parent, last] = split_path(backup.name);
    const Result<Directory> there = Directory::open(parent + "/.");
    if (!there)
        return there.error();
    const int to = there->fd();
    if (linkat(directory, name.c_str(), to, last.c_str(), 0) == 0)
        return {};
    if (errno == EEXIST) {
        const std::string fresh = random_name(last);
        if (linkat(directory, name.c_str(), to, fresh.c_str(), 0) == 0) {
            const int error = renameat(to, fresh.c_str(), to, last.c_str()) == 0 ? 0 : errno;
            unlinkat(to, fresh.c_str(), 0); // rename leaves two names of one file as they are
            if (error == 0)
                return {};
            errno = error;
        }
    }
    // A file system without links.
    if ((errno == EPERM || errno == EOPNOTSUPP) &&
        renameat(directory, name.c_str(), to, last.c_str()) == 0)
        return {};
    return Error::from_errno(fmt::format("keeping {} as {}", name, backup.name), errno);
}

} // namespace

Result<void> check_backup_place(int directory, const Backup &backup)
{
    if (backup.name.empty())
        return {};
    const Result<Directory> there = Directory::open(split_path(backup.name).first + "/.");
    if (!there)
        return there.error();
    struct stat here, its;
    if (fstat(directory, &here) != 0 || fstat(there->fd(), &its) != 0)
        return Error::from_errno(backup.name, errno);
    if (here.st_dev != its.st_dev)
        return Error(EXDEV, backup.name + ": is on another file system than the image, which can "
                                          "only be kept on its own; choose another name");
    return {};
}

Result<void> check_backup(int descriptor, const std::string &name, const Backup &backup)
{
    if (Result<void> place = check_backup_place(descriptor, backup); !place || backup.name.empty())
        return place;
    const auto [parent, last] = split_path(backup.name);
    const Result<Directory> there = Directory::open(parent + "/.");
    const Result<Directory> here = Directory::of(descriptor, "where " + name + " is");
    if (!there || !here)
        return !there ? there.error() : here.error();
    struct stat place_there, place_here;
    if (last == name && fstat(there->fd(), &place_there) == 0 &&
        fstat(here->fd(), &place_here) == 0 && place_there.st_dev == place_here.st_dev &&
        place_there.st_ino == place_here.st_ino)
        return Error(EEXIST, backup.name + ": is the name of the image itself; choose another one "
                                           "for the backup");
    const Result<std::optional<Digest>> id = look_for_id(*there, last);
    if (!id)
        return id.error().code() == ENOENT ? Result<void>() : id.error();
    if (!id->has_value())
        return Error(EEXIST, backup.name +
                                 ": is no image, and is not replaced by a backup; choose another "
                                 "name");
    std::vector<Digest> needed = backup.needed;
    static_cast<void>(add_needed(*here, name, needed));
    if (holds(*there, last, needed).value_or(false))
        return Error(EEXIST, backup.name +
                                 ": would be replaced by a backup, and is needed by it or by the "
                                 "new image; choose another name");
    return {};
}

Result<std::string> next_backup(int descriptor, const std::string &name)
{
    const Result<Directory> directory = Directory::of(descriptor, "where " + name + " is");
    if (!directory)
        return directory.error();
    Result<std::vector<unsigned>> found = numbers(*directory, name);
    if (!found)
        return found.error();
    return numbered(name, found->empty() ? 1 : found->back() + 1);
}

// What cannot be removed stays, and what may be needed by an image that cannot be read.
void remove_old_backups(int descriptor, const std::string &name, const Backup &backup)
{
    if (backup.keep == 0 || !backup.name.empty())
        return;
    const Result<Directory> directory = Directory::of(descriptor, "where " + name + " is");
    if (!directory)
        return;
    const Result<std::vector<unsigned>> found = numbers(*directory, name);
    if (!found || found->size() <= backup.keep)
        return;
    const size_t old = found->size() - backup.keep;
    std::vector<Digest> needed = backup.needed;
    if (!add_needed(*directory, name, needed))
        return;
    for (size_t i = old; i < found->size(); i++) {
        if (!add_needed(*directory, numbered(name, (*found)[i]), needed))
            return;
    }
    for (size_t i = 0; i < old; i++) {
        const std::string one = numbered(name, (*found)[i]);
        if (!holds(*directory, one, needed).value_or(true))
            static_cast<void>(remove_backup(*directory, one));
    }
}

Result<void> link_backup(int directory, const std::string &name, const Backup &backup)
{
    struct stat st;
    if (fstatat(directory, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? Result<void>() // nothing to keep
                               : Error::from_errno(name, errno);
    if (!backup.name.empty())
        return link_named(directory, name, backup);
    for (;;) {
        Result<std::string> to = next_backup(directory, name);
        if (!to)
            return to.error();
        // The image keeps its own name until the new one takes it.
        if (linkat(directory, name.c_str(), directory, to->c_str(), 0) == 0)
            return {};
        if (errno == EPERM || errno == EOPNOTSUPP) { // a file system without links
            if (renameat(directory, name.c_str(), directory, to->c_str()) == 0)
                return {};
        }
        if (errno != EEXIST)
            return Error::from_errno(fmt::format("keeping {} as {}", name, *to), errno);
    }
}

} // namespace cryo::image
