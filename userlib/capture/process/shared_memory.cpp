// SPDX-License-Identifier: Apache-2.0
#include "capture/process/shared_memory.hpp"

#include "base/fd.hpp"
#include "look/jvm_counters.hpp"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

namespace cryo::capture {

using image::ObjectKind;
using image::RegionKind;
using Contents = SharedContents::Contents;

namespace {

// POSIX shared memory and semaphores, and files of hugetlbfs: named, but held in memory.
bool is_in_memory(const Mapping &m, const std::string &path)
{
    struct statfs system;
    return m.huge_page_size != 0 ||
           (path.starts_with("/dev/shm/") && statfs(path.c_str(), &system) == 0 &&
            system.f_type == TMPFS_MAGIC);
}

// Whether a file without a name is one of shared memory: of memfd_create(), or of the tmpfs that
// its directory still is. Its pages are all there is of it, as with shared memory of no file.
bool was_in_memory(const Mapping &m, const std::string &path)
{
    if (m.kind == RegionKind::memfd)
        return true;
    const size_t slash = path.rfind('/');
    const std::string place = path.substr(0, slash == 0 ? 1 : slash);
    const Fd directory(open(place.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct stat status = {};
    struct statfs system = {};
    return slash != std::string::npos && directory && fstat(directory.get(), &status) == 0 &&
           status.st_dev == m.device && fstatfs(directory.get(), &system) == 0 &&
           system.f_type == TMPFS_MAGIC;
}

// Of the program's own user, in a directory of that user's: any other one may make both in /tmp,
// and would then rule the place where a restart writes.
bool is_counters_of_its_user(const Description &d, const image::File &file)
{
    constexpr uint64_t most = 1 << 20; // a JVM's has 32 KiB
    if (file.size > most || !is_jvm_counters(file.path))
        return false;
    const std::string place(file.path.substr(0, file.path.rfind('/')));
    const Fd directory(open(place.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status = {};
    if (!directory || fstat(directory.get(), &status) != 0 || status.st_uid != d.process.uid)
        return false;
    // In a user namespace the file's owner is known by the id outside.
    const std::optional<uid_t> user =
        d.options.owner_of ? d.options.owner_of(directory.get()) : status.st_uid;
    return user && *user == file.uid;
}

} // namespace

void SharedMappings::add_part(const Mapping &m, Contents &contents, uint64_t page, bool is_memory)
{
    if (contents.object == 0)
        contents.object = d_.objects.take();
    const uint64_t end_page = page + (m.end - m.start) / image::kPageSize;
    contents.size = std::max(contents.size, end_page * image::kPageSize);
    for (const auto &[from, to] : SharedContents::take(contents, page, end_page)) {
        const uint64_t start = m.start + (from - page) * image::kPageSize;
        d_.shared.push_back({contents.object, from, start, start + (to - from) * image::kPageSize,
                             static_cast<int>(m.prot), is_memory});
    }
}

void SharedMappings::add(const Mapping &m, image::Region &region)
{
    if (m.kind == RegionKind::sysv_shm) {
        // An object of its own, which belongs to no process: see files/ipc_objects.cpp.
        region.object = d_.ipc.object_of(m.inode);
        region.object_page = m.offset / image::kPageSize;
        return;
    }
    if (common_.is_mapped_once(m) && is_first_) {
        Contents &contents = common_.of(m);
        contents.kind = ObjectKind::shared_memory;
        add_part(m, contents, 0, m.kind == RegionKind::shared_anonymous);
        region.object = contents.object;
        region.object_page = 0;
        return;
    }
    if (m.kind == RegionKind::shared_anonymous) {
        // Mapped twice, in parts, or by several processes: only a file can be mapped like that
        // again, so a memfd is used.
        region.kind = RegionKind::memfd;
        region.file = d_.files.mapped("/memfd:shared memory", m.device, m.inode);
        region.file_offset = m.offset;
    }
    if (region.file == 0)
        return;
    image::File &file = d_.files.files()[region.file - 1];
    file.huge_page_size = m.huge_page_size;
    if (file.object != 0 && common_.find(m) == nullptr)
        return; // its contents are saved by a descriptor or a name
    // Whether any name leads to it. The mapping's own name may be removed while another one is
    // left, or may exist again: in both cases the kernel reports the mapping as deleted.
    const bool gone = (file.flags & image::kFileUnlinked) != 0;
    if (gone && m.huge_page_size != 0 && (m.flags & image::kRegionNoReserve) != 0)
        d_.problems.add(fmt::format("memory at {:x}: shared huge pages (hugetlb) without a "
                                    "descriptor and without a reservation (MAP_NORESERVE), which "
                                    "reading would allocate",
                                    m.start),
                        "map them without MAP_NORESERVE, or keep the descriptor open");
    if (gone) {
        Contents &contents = common_.of(m);
        contents.file = region.file;
        add_part(m, contents, m.offset / image::kPageSize,
                 m.kind == RegionKind::shared_anonymous ||
                     was_in_memory(m, std::string(file.path)));
        file.object = contents.object;
        file.flags |= image::kFileUnlinked | image::kFileContentsSaved;
    } else if (m.kind == RegionKind::shared_file && (m.prot & PROT_WRITE) != 0) {
        if (d_.options.save_shared || is_in_memory(m, std::string(file.path)) ||
            is_counters_of_its_user(d_, file))
            d_.files.save_by_name(region.file);
    }
}

void finish_shared(Description &first, SharedContents &common)
{
    for (const auto &[key, contents] : common.all()) {
        image::Object object;
        object.id = contents.object;
        object.kind = contents.kind;
        object.size = contents.size;
        if (contents.file != 0)
            first.files.files()[contents.file - 1].size = contents.size;
        first.shared_objects.push_back(object);
    }
}

} // namespace cryo::capture
