// SPDX-License-Identifier: Apache-2.0
// --lazy: large pieces of private memory are mapped from the image instead of read, so that a
// restart takes as long for much memory as for little. What is not stored as it is (compressed,
// in a base image), and everything that is small, is filled as ever.
#include "restore/open_parts.hpp"
#include "restore/plan_parts.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

namespace cryo::restore {

namespace {

using image::RegionKind;

constexpr uint64_t least_pages = 64; // what is smaller is read as quickly

// The kernel's limit is 65,530 mappings for a process. Between two pieces there may be a gap.
uint64_t most_pieces(const Planning &p)
{
    constexpr uint64_t most_mappings = 65'000;
    return (most_mappings - std::min<uint64_t>(p.saved.regions().size(), most_mappings)) / 2;
}

// From such a file system nothing can be mapped that is executable, or becomes so later.
bool is_noexec(const Planning &p)
{
    struct statvfs about = {};
    return fstatvfs(p.image.fd(), &about) == 0 && (about.f_flag & ST_NOEXEC) != 0;
}

// glibc's heaps of threads: it gives parts of them back with MADV_DONTNEED and relies on zeros
// afterwards, where a mapping of a file shows the file again.
bool may_be_a_heap_of_threads(const image::Region &region)
{
    constexpr uint64_t alignment = 64 << 20;
    return region.kind == RegionKind::anonymous && region.start % alignment == 0;
}

bool holds(const image::Region &region, uint64_t address)
{
    return address >= region.start && address < region.end;
}

bool is_stack(const Planning &p, const image::Region &region)
{
    return region.kind == RegionKind::stack || (region.flags & image::kRegionGrowsDown) != 0 ||
           std::ranges::any_of(p.saved.threads(), [&](const image::Thread &thread) {
               return holds(region, thread.sp) || holds(region, thread.fs_base) ||
                      (thread.altstack_size != 0 && holds(region, thread.altstack_sp));
           });
}

// The data of a program or library that is not in its file.
bool is_part_of_a_file(const Planning &p, const image::Region &region)
{
    return std::ranges::any_of(p.saved.regions(), [&](const image::Region &before) {
        return before.file != 0 && before.end == region.start;
    });
}

// The descriptor that all pieces are mapped from.
Result<int> image_descriptor(Planning &p)
{
    if (p.plan.lazy.fd < 0) {
        Result<int> number = keep_open(p, Fd(fcntl(p.image.fd(), F_DUPFD_CLOEXEC, 3)), 0);
        if (!number)
            return number;
        p.plan.lazy.fd = *number;
    }
    return p.plan.lazy.fd;
}

// Maps consecutive pieces. The old mapping is removed first, as a
// whole: the kernel maps into a gap in half the time that it needs
// to cut a piece out of a mapping, and 4 GiB are a thousand pieces.
void map_row(Planning &p, const image::Region &region, std::vector<Piece> &row, int fd)
{
    if (row.empty())
        return;
    const uint64_t start = row.front().address;
    const uint64_t length = row.back().address + row.back().length - start;
    Program &program = p.plan.program;
    program.call(fmt::format("making room for the image at {:x}", start), SYS_munmap,
                 {value(start), value(length)});
    program.add(Do::map, fmt::format("mapping {} MiB at {:x} from the image", length >> 20, start),
                {program.data(row.data(), row.size() * sizeof(Piece)), value(row.size()),
                 value(region.prot | PROT_WRITE), value(fd)});
    p.plan.lazy.mappings += row.size();
    p.plan.lazy.pages += length / image::kPageSize;
    row.clear();
}

void fill_piece(Planning &p, const image::Region &region, uint64_t at, uint64_t count)
{
    const uint64_t start = region.start + at * image::kPageSize;
    p.plan.program.add(
        Do::fill, fmt::format("filling memory at {:x}", start),
        {value(p.plan.floor + pages_fd_offset), value(start), value(count * image::kPageSize)});
    p.plan.fills.push_back({region.object, region.object_page + at, count});
}

} // namespace

bool is_lazy(const Planning &p, const image::Region &region)
{
    constexpr uint32_t others = image::kRegionShared | image::kRegionLocked |
                                image::kRegionWipeOnFork | image::kRegionMergeable;
    const bool kind = region.kind == RegionKind::anonymous || region.kind == RegionKind::heap;
    return p.options.lazy && kind && !needs_file(region) && (region.flags & others) == 0 &&
           (region.prot & PROT_EXEC) == 0 &&
           (region.end - region.start) / image::kPageSize >= least_pages &&
           !may_be_a_heap_of_threads(region) && !is_stack(p, region) &&
           !is_part_of_a_file(p, region) && !is_noexec(p);
}

// The region is mapped already, as memory of zeros.
Result<void> plan_lazy_region(Planning &p, const image::Region &region)
{
    Result<int> fd = image_descriptor(p);
    if (!fd)
        return fd.error();
    const uint64_t pages = (region.end - region.start) / image::kPageSize;
    const uint64_t most = most_pieces(p);
    std::vector<Piece> row;
    for (uint64_t at = 0; at < pages;) {
        const uint64_t page = region.object_page + at;
        Result<image::Run> run = p.image.find(region.object, page);
        if (!run)
            return run.error();
        uint64_t count = std::min(run->count, pages - at);
        if (count == 0)
            return Error(EINVAL, "the image's index is empty where memory should be");
        if (!run->hole && run->kind != image::ExtentKind::zero) {
            Result<image::Mappable> piece = p.image.mappable(region.object, page);
            if (!piece)
                return piece.error();
            piece->count = std::min(piece->count, count);
            // A region that ended in a mapping of the image would grow by mremap(), which realloc()
            // uses, into what follows in the image. Across mappings mremap() fails, and realloc()
            // copies.
            if (at + piece->count == pages && piece->count > 1)
                piece->count--;
            if (piece->count >= least_pages && p.plan.lazy.mappings + row.size() < most) {
                count = piece->count;
                const uint64_t address = region.start + at * image::kPageSize;
                if (!row.empty() && row.back().address + row.back().length != address)
                    map_row(p, region, row, *fd);
                row.push_back({address, count * image::kPageSize, piece->file_offset});
            } else {
                count = piece->count != 0 ? piece->count : count;
                fill_piece(p, region, at, count);
            }
        }
        at += count;
    }
    map_row(p, region, row, *fd);
    return {};
}

void note_lazy(Planning &p)
{
    if (p.options.lazy && p.plan.lazy.pages != 0)
        p.plan.notices.push_back(fmt::format(
            "--lazy: {} MiB come from {} when they are touched. Their contents are not verified, "
            "and memory that the program gives back with MADV_DONTNEED reads as it was saved",
            p.plan.lazy.pages / 256, p.image.name()));
    else if (p.options.lazy && is_noexec(p))
        p.plan.notices.push_back(fmt::format("--lazy: {} is on a file system that is mounted "
                                             "noexec, so all memory is read at once",
                                             p.image.name()));
}

} // namespace cryo::restore
