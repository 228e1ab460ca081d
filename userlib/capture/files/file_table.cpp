// SPDX-License-Identifier: Apache-2.0
#include "capture/files/file_table.hpp"

#include "capture/files/file_access.hpp"
#include "capture/files/other_name.hpp"
#include "resources/kinds.hpp"
#include "resources/paths.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <linux/magic.h>
#include <string_view>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

namespace cryo::capture {

using image::FileKind;
using resources::gone;

namespace {

int64_t nanoseconds(const timespec &t)
{
    return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

bool has_own_file(FileKind kind)
{
    return resources::kind(kind).has_own_file;
}

// The device that stat(2) gives for a file of this directory if /proc/PID/maps says `mapped`: on
// btrfs and overlayfs another one.
dev_t device_of_file(const std::string &directory, uint64_t mapped)
{
    struct stat status;
    struct statfs system;
    const bool differs =
        stat(directory.c_str(), &status) == 0 && statfs(directory.c_str(), &system) == 0 &&
        (system.f_type == BTRFS_SUPER_MAGIC || system.f_type == OVERLAYFS_SUPER_MAGIC);
    return differs ? status.st_dev : mapped;
}

} // namespace

void FileTable::add_open_file(Seen &seen)
{
    image::OpenFile record;
    record.id = seen.open_file = static_cast<uint32_t>(open_files_.size() + 1);
    record.file = find_or_add(seen);
    record.flags = seen.flags;
    record.position = seen.position;
    open_files_.push_back(record);
}

uint32_t FileTable::mapped(const std::string &path, uint64_t device, uint64_t inode)
{
    // Cached, because processes have many mappings of the same files.
    const std::tuple key(path, device, inode);
    if (const auto known = mapped_.find(key); known != mapped_.end())
        return known->second;
    Seen seen;
    seen.link = path;
    // The file that the name leads to now must be the one that is mapped.
    if (stat(path.c_str(), &seen.status) != 0 || seen.status.st_ino != inode)
        return mapped_[key] = mapped_elsewhere(path, device, inode);
    seen.kind = resources::kind_of(seen);
    const uint32_t file = find_or_add(seen);
    if (!has_own_file(seen.kind))
        mapped_.emplace(key, file);
    return file;
}

uint32_t FileTable::removed_directory(const std::string &link, const struct stat &status)
{
    Seen seen;
    seen.link = link;
    seen.status = status;
    seen.kind = FileKind::directory;
    return link.ends_with(gone) && !is_named(seen) ? find_or_add(seen) : 0;
}

// A FIFO is made again with all names by which it is open, as far as there are two. What was opened
// by a name that is gone has the other one. With a single link, a second path is a mount.
void FileTable::note_other_name(image::File &known, const Seen &seen)
{
    if (known.kind != FileKind::fifo || known.path == seen.link || !is_named(seen))
        return;
    if ((known.flags & image::kFileUnlinked) != 0) {
        known.path = strings_.keep(seen.link);
        known.flags &= ~image::kFileUnlinked;
    } else if (seen.status.st_nlink > 1 && known.link.empty()) {
        known.link = strings_.keep(seen.link);
    } else if (seen.status.st_nlink > 1 && known.link != seen.link) {
        left_out_.insert(
            fmt::format("FIFO {} will not have its further name {}", known.path, seen.link));
    }
}

uint32_t FileTable::find_or_add(const Seen &seen)
{
    const std::pair<uint64_t, uint64_t> key(seen.status.st_dev, seen.status.st_ino);
    if (!has_own_file(seen.kind)) {
        if (const auto found = by_inode_.find(key); found != by_inode_.end()) {
            note_other_name(file(found->second), seen);
            return found->second;
        }
    }
    image::File file;
    file.id = static_cast<uint32_t>(files_.size() + 1);
    std::string path = seen.link;
    if (path.ends_with(gone) && !is_named(seen)) {
        path.resize(path.size() - gone.size());
        file.flags |= image::kFileUnlinked;
    }
    file.kind = seen.kind;
    if (file.kind == FileKind::memfd)
        file.link = strings_.keep(path.substr(std::string_view("/memfd:").size()));
    file.path = strings_.keep(std::move(path));
    file.device = seen.status.st_dev;
    file.inode = seen.status.st_ino;
    file.mode = seen.status.st_mode;
    file.uid = owner_of_file(seen, options_);
    file.gid = seen.status.st_gid;
    file.links = static_cast<uint32_t>(seen.status.st_nlink);
    file.size = static_cast<uint64_t>(seen.status.st_size);
    file.modified = nanoseconds(seen.status.st_mtim);
    file.device_number = seen.status.st_rdev;
    files_.push_back(file);
    if (!has_own_file(seen.kind))
        by_inode_[key] = file.id;
    return file.id;
}

// The FILE of a mapping whose name does not lead to what is mapped: the file has another name, as
// each semaphore of sem_open(3) does where it was made, or a descriptor, or nothing but mappings.
uint32_t FileTable::mapped_elsewhere(const std::string &path, uint64_t device, uint64_t inode)
{
    Seen seen;
    seen.link = path + std::string(gone);
    seen.status.st_mode = S_IFREG;
    seen.status.st_ino = inode;
    seen.kind = kind_of(seen);
    if (seen.kind == FileKind::regular) {
        seen.status.st_dev = device_of_file(directory_of(path), device);
        const std::string other = other_name(seen);
        if (!other.empty() && lstat(other.c_str(), &seen.status) == 0) {
            seen.link = other;
            const uint32_t id = find_or_add(seen);
            file(id).flags |= image::kFileRenamed;
            return id;
        }
        if (const uint32_t id = opened_elsewhere(path, device, inode); id != 0)
            return id;
    }
    seen.status.st_dev = device;
    return find_or_add(seen);
}

// The FILE of a descriptor of a deleted file, if it has another device than the mapping: btrfs and
// overlayfs make up devices for stat(2). 0: there is none.
uint32_t FileTable::opened_elsewhere(const std::string &path, uint64_t device, uint64_t inode) const
{
    if (by_inode_.contains({device, inode}))
        return 0;
    for (const image::File &file : files_) {
        if (file.inode == inode && file.kind == FileKind::regular && major(file.device) == 0 &&
            (file.flags & image::kFileUnlinked) != 0 && file.path == path &&
            std::ranges::any_of(open_files_, [&](const image::OpenFile &open_file) {
                return open_file.file == file.id;
            }))
            return file.id;
    }
    return 0;
}

} // namespace cryo::capture
