// SPDX-License-Identifier: Apache-2.0
// Memory: what is mapped, how, from where; and byte by byte the contents that the image has.
#include "base/remote_address_text.hpp"
#include "look/memory_file.hpp"
#include "look/regions.hpp"
#include "restore/compare.hpp"
#include "restore/plan_parts.hpp"
#include "sys/aio_ring.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cryo::restore {

using capture::Mapping;
using image::Region;
using image::RegionKind;

namespace {

constexpr uint64_t page_size = image::kPageSize;
constexpr uint64_t piece = (1 << 20) / page_size;

bool is_kernels(const Region &region)
{
    return region.kind == RegionKind::vdso || region.kind == RegionKind::vvar;
}

std::string name_of(const Comparison &c, const Region &region)
{
    const auto file = c.saved.files().find(region.file);
    const std::string_view name = file != c.saved.files().end() ? file->second.path : region.name;
    return fmt::format("{:x}-{:x} {}", region.start, region.end,
                       !name.empty()                        ? name
                       : region.kind == RegionKind::heap    ? "[heap]"
                       : (region.kind == RegionKind::stack) ? "[stack]"
                                                            : "(anonymous)");
}

// Guard pages may show up as mappings of their own.
bool is_guarded(const Comparison &c, uint64_t start, uint64_t end)
{
    return std::ranges::any_of(c.saved.of<image::Guard>(), [&](const image::Guard &guard) {
        return guard.start < end && guard.end > start;
    });
}

// A file that is mapped by its name.
const image::File *named_file(const Comparison &c, const Region &region)
{
    if (!needs_file(region) ||
        (region.kind != RegionKind::private_file && region.kind != RegionKind::shared_file))
        return nullptr;
    const auto file = c.saved.files().find(region.file);
    constexpr uint32_t without_name = image::kFileUnlinked | image::kFileContentsSaved;
    return file == c.saved.files().end() || (file->second.flags & without_name) != 0
               ? nullptr
               : &file->second;
}

Result<void> compare_part(const Comparison &c, const Region &region, const Mapping &part)
{
    const std::string what = "memory at " + name_of(c, region);
    if (!is_guarded(c, std::max(part.start, region.start), std::min(part.end, region.end))) {
        if (Result<void> same = same_number(what + ": its protection", part.prot, region.prot);
            !same)
            return same;
    }
    const bool shared = (region.flags & image::kRegionShared) != 0;
    if (part.shared != shared)
        return difference(what + (shared ? " is not shared any more" : " is shared now"));
    const image::File *file = named_file(c, region);
    if (file == nullptr)
        return {};
    if (Result<void> same = same_text(what + ": its file", part.path, file->path); !same)
        return same;
    const uint64_t begin = region.file_offset + (part.start - region.start);
    return part.start < region.start
               ? Result<void>()
               : same_hex(what + ": its place in the file", part.offset, begin);
}

// Checks that the whole region is mapped, as it was.
Result<void> compare_region(const Comparison &c, const Region &region,
                            const std::vector<Mapping> &now)
{
    uint64_t at = region.start;
    auto part = std::ranges::upper_bound(now, at, {}, &Mapping::end);
    for (; part != now.end() && part->start <= at && at < region.end; part++) {
        if (Result<void> same = compare_part(c, region, *part); !same)
            return same;
        at = part->end;
    }
    return at >= region.end ? Result<void>()
                            : difference(fmt::format("memory at {}: nothing is mapped at {:x}",
                                                     name_of(c, region), at));
}

// Besides the regions there are the kernel's own pages, and in one piece
// the restart's working area, which is unmapped when the program resumes.
Result<void> compare_rest(const Comparison &c, const std::vector<Mapping> &now)
{
    uint64_t area_end = 0;
    for (const Mapping &one : now) {
        const auto lies_there = [&](const auto &saved) {
            return saved.start < one.end && saved.end > one.start;
        };
        const bool known = one.path.starts_with("[v") ||
                           std::ranges::any_of(c.saved.regions(), lies_there) ||
                           std::ranges::any_of(c.saved.of<image::AioContext>(), lies_there);
        if (known)
            continue;
        if (area_end != 0 && one.start != area_end)
            return difference(fmt::format("memory is mapped at {:x}-{:x} {}, where nothing was",
                                          one.start, one.end, one.path));
        area_end = one.end;
    }
    return {};
}

Result<void> compare_context(const image::AioContext &context, const Fd &memory,
                             const std::vector<Mapping> &now)
{
    const std::string what = fmt::format("the context of asynchronous I/O at {:x}", context.start);
    const bool is_mapped = std::ranges::any_of(now, [&](const Mapping &one) {
        return one.path == "/[aio]" && one.start == context.start && one.end == context.end;
    });
    if (!is_mapped)
        return difference(what + " is not there");
    const RemoteAddress start(context.start);
    sys::AioRing ring = {};
    if (!capture::read_at(memory, start, &ring, sizeof(ring)))
        return Error::from_errno("reading " + what, errno);
    if (Result<void> same = same_number(what + ": its head", ring.head, context.head); !same)
        return same;
    if (Result<void> same = same_number(what + ": its tail", ring.tail, context.tail); !same)
        return same;
    const image::Bytes events = context.events.bytes();
    for (uint64_t i = 0; i < events.size() / sizeof(io_event); i++) {
        io_event event = {};
        const uint64_t slot = (context.head + i) % sys::aio_slots(context.end - context.start);
        if (!capture::read_at(memory, start + sizeof(ring) + slot * sizeof(event), &event,
                              sizeof(event)))
            return Error::from_errno("reading " + what, errno);
        if (memcmp(&event, events.data() + i * sizeof(event), sizeof(event)) != 0)
            return difference(fmt::format("{}: the event in slot {}", what, slot));
    }
    return {};
}

// Reads memory from the process and from the image, and compares them.
class Contents
{
  public:
    Contents(const Comparison &c, Fd memory, Fd pages)
        : c_(c), memory_(std::move(memory)), pages_(std::move(pages))
    {}

    Result<void> compare(const Region &region);

  private:
    image::Image &image_of(const Region &region) const
    {
        return region.object == c_.saved.memory.object ? c_.image : c_.first;
    }
    Result<void> compare_pages(const Region &region, uint64_t first, uint64_t count, bool zeros);
    Result<void> compare_untouched(const Region &region, uint64_t first, uint64_t count);
    void leave_out(RemoteAddress from, uint64_t size);
    Result<void> found(const Region &region, RemoteAddress from) const;

    const Comparison &c_;
    Fd memory_, pages_;
    std::vector<uint8_t> saved_ = std::vector<uint8_t>(piece * page_size);
    std::vector<uint8_t> now_ = std::vector<uint8_t>(piece * page_size);
};

// Ignores rseq areas, where the kernel writes the processor that a thread runs on.
void Contents::leave_out(RemoteAddress from, uint64_t size)
{
    for (const image::Thread &thread : c_.saved.threads()) {
        const RemoteAddress area(thread.rseq);
        const RemoteAddress start = std::max(area, from);
        const RemoteAddress end = std::min(area + thread.rseq_size, from + size);
        if (thread.rseq != 0 && start < end)
            memcpy(&now_[start - from], &saved_[start - from], end - start);
    }
}

Result<void> Contents::found(const Region &region, RemoteAddress from) const
{
    const uint64_t size = std::min(RemoteAddress(region.end) - from, piece * page_size);
    const auto [mine, theirs] =
        std::mismatch(now_.begin(), now_.begin() + static_cast<ptrdiff_t>(size), saved_.begin());
    return difference(fmt::format(
        "memory at {}: the byte at {:x} is {:02x}, and {:02x} in the "
        "image",
        name_of(c_, region), from + static_cast<uint64_t>(mine - now_.begin()), *mine, *theirs));
}

Result<void> Contents::compare_pages(const Region &region, uint64_t first, uint64_t count,
                                     bool zeros)
{
    const RemoteAddress from = RemoteAddress(region.start) + first * page_size;
    const size_t size = count * page_size;
    if (zeros) {
        std::fill_n(saved_.begin(), size, 0);
    } else if (Result<void> got = image_of(region).read_pages(
                   region.object, region.object_page + first, {saved_.data(), size});
               !got) {
        return got;
    }
    for (size_t have = 0; have < size;) {
        const ssize_t n = pread(memory_.get(), &now_[have], size - have,
                                static_cast<off_t>((from + have).number()));
        if (n <= 0)
            return Error::from_errno(fmt::format("reading memory at {}", name_of(c_, region)),
                                     n < 0 ? errno : EIO);
        have += static_cast<size_t>(n);
    }
    leave_out(from, size);
    if (memcmp(now_.data(), saved_.data(), size) != 0)
        return found(region, from);
    if (c_.moved)
        c_.moved(size);
    return {};
}

// Pages never written to must still be so, or zeros. Reading them would allocate them.
Result<void> Contents::compare_untouched(const Region &region, uint64_t first, uint64_t count)
{
    constexpr uint64_t most = (1 << 30) / page_size; // a reservation may be larger than any memory
    constexpr uint64_t present = uint64_t(3) << 62;  // or in swap
    if (count > most)
        return {};
    std::vector<uint64_t> entries(std::min(count, piece));
    for (uint64_t at = 0; at < count;) {
        const size_t want = std::min<uint64_t>(entries.size(), count - at) * sizeof(uint64_t);
        const uint64_t page = region.start / page_size + first + at;
        const ssize_t n =
            pread(pages_.get(), entries.data(), want, static_cast<off_t>(page * sizeof(uint64_t)));
        if (n <= 0)
            return Error::from_errno("reading a page map", n < 0 ? errno : EIO);
        for (size_t i = 0; i < static_cast<size_t>(n) / sizeof(uint64_t); i++) {
            if ((entries[i] & present) == 0)
                continue;
            if (Result<void> same = compare_pages(region, first + at + i, 1, true); !same)
                return same;
        }
        at += static_cast<size_t>(n) / sizeof(uint64_t);
    }
    return {};
}

Result<void> Contents::compare(const Region &region)
{
    const uint64_t pages = (region.end - region.start) / page_size;
    const bool private_zeros = !needs_file(region) && (region.flags & image::kRegionShared) == 0;
    for (uint64_t at = 0; at < pages;) {
        Result<image::Run> run = image_of(region).find(region.object, region.object_page + at);
        if (!run)
            return run.error();
        uint64_t count = std::min(run->count, pages - at);
        if (count == 0)
            return Error(EINVAL, "the image's index is empty where memory should be");
        const uint64_t start = region.start + at * page_size;
        const bool zero = !run->hole && run->kind == image::ExtentKind::zero;
        Result<void> same;
        if (run->hole && (!private_zeros || is_guarded(c_, start, start + count * page_size))) {
            // The file has the contents, or the shared memory; or the pages are guarded.
        } else if (run->hole || (zero && private_zeros)) {
            same = compare_untouched(region, at, count);
        } else {
            count = std::min(count, piece);
            same = compare_pages(region, at, count, zero);
        }
        if (!same)
            return same;
        at += count;
    }
    return {};
}

} // namespace

Result<void> compare_memory(const Comparison &c)
{
    Result<std::string> maps = c.proc().read("maps");
    Result<Fd> memory = c.proc().open("mem", O_RDONLY);
    Result<Fd> pages = c.proc().open("pagemap", O_RDONLY);
    if (!maps || !memory || !pages)
        return !maps ? maps.error() : !memory ? memory.error() : pages.error();
    std::vector<Mapping> now;
    capture::for_each_mapping(*maps, [&](const Mapping &one) { now.push_back(one); });
    for (const image::AioContext &context : c.saved.of<image::AioContext>()) {
        if (Result<void> same = compare_context(context, *memory, now); !same)
            return same;
    }
    Contents contents(c, std::move(*memory), std::move(*pages));
    for (const Region &region : c.saved.regions()) {
        if (is_kernels(region))
            continue;
        if (Result<void> same = compare_region(c, region, now); !same)
            return same;
        // A named file's shared contents belong to others, too, and were not written back.
        if (region.kind == RegionKind::device || region.object == 0 ||
            (region.kind == RegionKind::shared_file && named_file(c, region) != nullptr))
            continue;
        if (Result<void> same = contents.compare(region); !same)
            return same;
    }
    return compare_rest(c, now);
}

} // namespace cryo::restore
