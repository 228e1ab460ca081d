// SPDX-License-Identifier: Apache-2.0
// Files that the name they were opened or mapped by does not lead to: another name is looked for.
// Contents of files that have no name to be found by, or that were requested. They are copied while
// the program is stopped, in parts, and only where the file has data.
#include "base/open_found.hpp"
#include "capture/files.hpp"
#include "resources/contents.hpp"
#include "resources/memfd.hpp"
#include "resources/paths.hpp"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <memory>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace cryo::capture {

using image::FileKind;

namespace {

constexpr uint64_t page = image::kPageSize;

std::string directory_of(std::string_view path)
{
    const size_t slash = path.rfind('/');
    return std::string(path.substr(0, std::max<size_t>(slash, 1)));
}

// NFS keeps such a file until it is closed, so it will not exist at the restart.
bool is_silly_renamed(std::string_view path)
{
    return path.substr(path.rfind('/') + 1).substr(0, 4) == ".nfs";
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

// Where others may write, another file may be there by now, a FIFO or a device; and a hostile
// program exchanges its descriptors while they are looked at. So whatever the name leads to is
// compared with what was looked at before it is opened. A lease is not waited for.
//
// The kernel's name of a file leads over no link. If it does now, somebody has put that there, and
// the comparison with what was looked at says nothing: that was looked at over the link, too.
Result<Fd> open_same(const std::string &path, const image::File &file)
{
    const Result<Found> found = look_at(path, path == file.path ? Links::nowhere : Links::followed);
    if (!found)
        return found.error();
    const struct stat &now = found->status;
    if (!S_ISREG(now.st_mode) || now.st_ino != file.inode || now.st_dev != file.device)
        return Error(ESTALE, fmt::format("{}: another file has come to its place", path));
    return open_found(*found, O_RDONLY | O_NONBLOCK);
}

} // namespace

// Another name of the same file in its original directory: a hard link, or its new name if a rename
// is not reported by the kernel. Empty if there is none.
std::string Files::other_name(const Seen &seen) const
{
    const std::string directory = directory_of(seen.link);
    const std::unique_ptr<DIR, int (*)(DIR *)> list(opendir(directory.c_str()), closedir);
    while (const dirent *entry = list ? readdir(list.get()) : nullptr) {
        if (entry->d_ino != seen.status.st_ino)
            continue;
        std::string path = directory + "/" + entry->d_name;
        struct stat now;
        if (lstat(path.c_str(), &now) == 0 && S_ISREG(now.st_mode) &&
            now.st_ino == seen.status.st_ino && now.st_dev == seen.status.st_dev)
            return path;
    }
    return {};
}

// The FILE of a mapping whose name does not lead to what is mapped: the file has another name, as
// each semaphore of sem_open(3) does where it was made, or a descriptor, or nothing but mappings.
uint32_t Files::mapped_elsewhere(const std::string &path, uint64_t device, uint64_t inode)
{
    Seen seen;
    seen.link = path + std::string(resources::gone);
    seen.status.st_mode = S_IFREG;
    seen.status.st_ino = inode;
    seen.kind = kind_of(seen);
    if (seen.kind == FileKind::regular) {
        seen.status.st_dev = device_of_file(directory_of(path), device);
        const std::string other = other_name(seen);
        if (!other.empty() && lstat(other.c_str(), &seen.status) == 0) {
            seen.link = other;
            const uint32_t file = file_of(seen);
            files_[file - 1].flags |= image::kFileRenamed;
            return file;
        }
        if (const uint32_t file = opened_elsewhere(path, device, inode); file != 0)
            return file;
    }
    seen.status.st_dev = device;
    return file_of(seen);
}

// The FILE of a descriptor of a deleted file, if it has another device than the mapping: btrfs and
// overlayfs make up devices for stat(2). 0: there is none.
uint32_t Files::opened_elsewhere(const std::string &path, uint64_t device, uint64_t inode) const
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

Result<void> Files::note_contents(const Seen &seen)
{
    image::File &file = file_record(seen);
    if (file.object != 0 || (file.flags & image::kFileRenamed) != 0)
        return {};
    const bool by_name = seen.kind == FileKind::regular && is_named(seen);
    if (by_name && !is_silly_renamed(seen.link) && !options_.save_files)
        return {};
    if (seen.kind == FileKind::regular && !by_name && seen.status.st_nlink > 0) {
        const std::string other = other_name(seen);
        struct stat now;
        if (lstat(seen.link.c_str(), &now) != 0 && errno == EACCES) {
            refuse(seen, "a file in a directory that may not be entered, " + seen.link,
                   "open it where the user of the program may open it again");
            return {};
        }
        if (other.empty()) {
            refuse(seen,
                   "a file that its name does not lead to, but that has another one, " + seen.link,
                   "it was renamed by another host, mounted over, or is in another namespace");
            return {};
        }
        file.path = strings_.keep(other);
        file.flags = (file.flags & ~image::kFileUnlinked) | image::kFileRenamed;
        if (!options_.save_files)
            return {};
    } else if (!by_name) {
        file.flags |= image::kFileUnlinked;
    }
    if (seen.kind == FileKind::memfd) {
        if (Result<void> done = resources::save_memory_file(seen, file); !done)
            return done;
    }
    file.flags |= image::kFileContentsSaved;
    file.object = objects_.take();
    contents_.push_back({file.id, proc_of(seen).path("fd/" + std::to_string(seen.fd)), {}});
    if (seen.passed_in >= 0) {
        Fd kept(fcntl(seen.shared.get(), F_DUPFD_CLOEXEC, 3));
        if (!kept)
            return Error::from_errno("keeping " + seen.link, errno);
        contents_.back().path = own_.path("fd/" + std::to_string(kept.get()));
        contents_.back().kept = std::move(kept);
    }
    const Result<Fd> readable = open_same(contents_.back().path, file);
    if (!readable && readable.error().code() == ESTALE)
        return readable.error().within(fmt::format("descriptor {}", seen.fd));
    if (!readable)
        refuse(
            seen,
            fmt::format("a file that cannot be read, {}: {}", seen.link, readable.error().text()),
            readable.error().code() == EWOULDBLOCK
                ? "a program must give up its lease on it before the checkpoint"
                : "its mode must allow its owner to read it");
    return {};
}

void Files::save_by_name(uint32_t id)
{
    image::File &file = files_[id - 1];
    if (file.object != 0)
        return;
    file.flags |= image::kFileContentsSaved;
    file.object = objects_.take();
    contents_.push_back({id, std::string(file.path), {}});
}

Result<void> Files::save_contents(image::ImageWriter &writer, const std::function<void()> &at_work)
{
    std::vector<uint8_t> buffer(resources::contents_part);
    for (auto &[id, path, kept] : contents_) {
        image::File &file = files_[id - 1];
        image::Object object;
        object.id = file.object;
        object.kind = image::ObjectKind::file_contents;
        object.size = file.size;
        object.name = file.path;
        if (Result<void> added = writer.add(object); !added)
            return added;
        const Result<Fd> source = open_same(path, file);
        if (!source)
            return source.error();
        kept.reset();
        if (Result<void> saved =
                resources::save_contents(writer, file, source->get(), buffer, at_work);
            !saved)
            return saved;
    }
    return {};
}

Result<void> Files::save_copied(image::ImageWriter &writer)
{
    for (const CopiedContents &copy : copied_) {
        if (Result<void> saved = capture::save_copied(copy, writer); !saved)
            return saved;
    }
    return {};
}

Result<void> save_copied(const CopiedContents &copy, image::ImageWriter &writer)
{
    image::Object object;
    object.id = copy.object;
    object.kind = copy.kind;
    object.size = copy.bytes.size();
    if (Result<void> added = writer.add(object); !added)
        return added;
    std::string whole = copy.bytes;
    whole.resize((whole.size() + page - 1) & ~(page - 1));
    return writer.add_pages(copy.object, 0, image::as_bytes(whole));
}

} // namespace cryo::capture
