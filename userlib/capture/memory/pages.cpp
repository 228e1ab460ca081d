// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/pages.hpp"

#include "capture/memory/frozen.hpp"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <fcntl.h>
#include <future>
#include <linux/fs.h>
#include <optional>
#include <sys/ioctl.h>
#include <system_error>
#include <thread>
#include <unistd.h>

// Linux 6.7's PAGEMAP_SCAN, for older headers. The numbers are the kernel's ABI.
#ifndef PAGEMAP_SCAN
struct page_region {
    __u64 start, end, categories;
};
struct pm_scan_arg {
    __u64 size, flags, start, end, walk_end, vec, vec_len, max_pages;
    __u64 category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define PAGEMAP_SCAN _IOWR('f', 16, struct pm_scan_arg)
#define PM_SCAN_WP_MATCHING (1 << 0)
#define PM_SCAN_CHECK_WPASYNC (1 << 1)
#define PAGE_IS_WRITTEN (1 << 1)
#define PAGE_IS_FILE (1 << 2)
#define PAGE_IS_PRESENT (1 << 3)
#define PAGE_IS_SWAPPED (1 << 4)
#define PAGE_IS_PFNZERO (1 << 5)
#endif
#ifndef PAGE_IS_GUARD
#define PAGE_IS_GUARD (1 << 8) // Linux 6.15
#endif

namespace cryo::capture {

namespace {

constexpr uint64_t table = 2 << 20; // covered by one page of a page table

// Bits of a page map entry.
constexpr uint64_t is_present = 1ULL << 63;
constexpr uint64_t is_swapped = 1ULL << 62;
constexpr uint64_t is_file_or_shared = 1ULL << 61;
constexpr uint64_t is_exclusive = 1ULL << 56; // no other process has this page
constexpr uint64_t is_soft_dirty = 1ULL << 55;
constexpr uint64_t is_write_protected = 1ULL << 57; // by a userfaultfd

bool is_own(uint64_t entry)
{
    return (entry & (is_present | is_swapped)) != 0 && (entry & is_file_or_shared) == 0;
}

void append(std::vector<Run> &runs, uint64_t start, uint64_t end)
{
    if (!runs.empty() && runs.back().end == start)
        runs.back().end = end;
    else
        runs.push_back({start, end});
}

auto into(std::vector<Run> &runs)
{
    return [&runs](const page_region &region) { append(runs, region.start, region.end); };
}

// Repeats one request until the range is covered. Returns errno of the first failure, or 0.
template <class Take>
int scan_all(int fd, pm_scan_arg arg, uint64_t start, uint64_t end, const Take &take)
{
    page_region regions[512];
    while (start < end) {
        arg.size = sizeof(arg);
        arg.start = start;
        arg.end = end;
        arg.walk_end = 0;
        arg.vec = reinterpret_cast<uint64_t>(regions);
        arg.vec_len = std::size(regions);
        const int n = ioctl(fd, PAGEMAP_SCAN, &arg);
        if (n < 0)
            return errno;
        for (int i = 0; i < n; i++)
            take(regions[i]);
        if (arg.walk_end <= start)
            return EIO; // it makes no progress
        start = arg.walk_end;
    }
    return 0;
}

// Joins runs that are close together: starting a request takes as long as scanning the gap.
std::vector<Run> neighbours(const std::vector<Run> &runs)
{
    constexpr uint64_t looked_through = 256 * image::kPageSize;
    std::vector<Run> joined;
    for (const Run &run : runs) {
        if (!joined.empty() && run.start - joined.back().end <= looked_through)
            joined.back().end = run.end;
        else
            joined.push_back(run);
    }
    return joined;
}

} // namespace

Result<PageMap> PageMap::open(const Proc &proc)
{
    Result<Fd> fd = proc.open("pagemap", O_RDONLY);
    if (!fd)
        return fd.error();
    return PageMap(std::move(*fd));
}

// False if the kernel does not support the request, or one of the categories.
Result<bool> PageMap::scan(uint64_t start, uint64_t end, const Categories &wanted,
                           std::vector<Run> &runs) const
{
    pm_scan_arg arg = {};
    arg.category_inverted = wanted.absent;
    arg.category_mask = wanted.absent | wanted.all;
    arg.category_anyof_mask = wanted.any;
    arg.return_mask = wanted.all | wanted.any;
    const int error = scan_all(fd_.get(), arg, start, end, into(runs));
    if (error == ENOTTY || error == EINVAL)
        return false;
    if (error != 0)
        return Error::from_errno("scanning the page map", error);
    return true;
}

// With any other masks, pages that were given back to the kernel would not count as written.
// Returns errno, or 0.
int PageMap::scan_written(const Run &within, std::vector<Run> &runs) const
{
    pm_scan_arg arg = {};
    arg.flags = PM_SCAN_CHECK_WPASYNC;
    arg.category_mask = PAGE_IS_WRITTEN;
    arg.return_mask = PAGE_IS_WRITTEN;
    return scan_all(fd_.get(), arg, within.start, within.end, into(runs));
}

// Another thread scans half of a large range. Its list is reserved so that it need not allocate
// more memory while it scans. Only the work is waited for, not the thread's exit, which may happen
// in the stop and takes as long as scanning half a GiB.
Result<std::vector<Run>> PageMap::written(uint64_t start, uint64_t end) const
{
    constexpr uint64_t large = 1 << 30;
    constexpr size_t usual = 2048;
    std::vector<Run> runs, behind;
    std::future<void> other;
    int error = 0, others = 0;
    uint64_t middle = end;
    if (end - start >= large && std::thread::hardware_concurrency() > 1) {
        middle = start + (end - start) / 2 / table * table;
        behind.reserve(usual);
        try {
            other = std::async(std::launch::async, [&] {
                others = scan_written({middle, end}, behind);
            });
        } catch (const std::system_error &) { // no more threads are allowed
            middle = end;
        }
    }
    error = scan_written({start, middle}, runs);
    if (other.valid()) {
        other.wait();
        past_.push_back(std::move(other));
    }
    error = error != 0 ? error : others;
    if (error != 0)
        return Error::from_errno("looking for written pages", error);
    for (const Run &run : behind)
        append(runs, run.start, run.end);
    return runs;
}

// The kernel finds written pages quickly but reports their kinds slowly, so the kinds are read only
// where there are written pages.
Result<PageMap::Written> PageMap::protect_written(uint64_t start, uint64_t end) const
{
    Result<std::vector<Run>> candidates = written(start, end);
    if (!candidates)
        return candidates.error();
    Written found;
    for (const Run &run : neighbours(*candidates)) {
        if (Result<void> done = protect_written(run, found); !done)
            return done.error();
    }
    for (const Run &run : neighbours(without(*candidates, found.all))) {
        Result<std::vector<Run>> there = guards(run.start, run.end);
        if (!there)
            return there.error();
        for (const Run &guard : *there)
            append(found.guards, guard.start, guard.end);
    }
    found.kept = without(without({{start, end}}, *candidates), found.all);
    return found;
}

// Without a page, a marker of the protection would remain and look like a page, so holes are
// excluded. Guards are excluded too, since a marker would hide them. File pages are not asked for:
// to tell them, the kernel must look at each single page's data, and only anonymous memory is
// watched anyway.
Result<void> PageMap::protect_written(const Run &within, Written &found) const
{
    const auto take = [&](const page_region &region) {
        append(found.all, region.start, region.end);
        if ((region.categories & PAGE_IS_PFNZERO) == 0)
            append(found.own, region.start, region.end);
    };
    pm_scan_arg arg = {};
    arg.flags = PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC;
    arg.category_inverted = PAGE_IS_GUARD;
    arg.category_mask = PAGE_IS_WRITTEN | PAGE_IS_GUARD;
    arg.category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED;
    arg.return_mask = PAGE_IS_WRITTEN | PAGE_IS_PFNZERO;
    int error = scan_all(fd_.get(), arg, within.start, within.end, take);
    if (error == EINVAL) { // the kernel has no guards, or does not report them
        arg.category_inverted = 0;
        arg.category_mask = PAGE_IS_WRITTEN;
        error = scan_all(fd_.get(), arg, within.start, within.end, take);
    }
    if (error != 0)
        return Error::from_errno("watching memory", error);
    return {};
}

template <class Is>
Result<std::vector<Run>> PageMap::read(uint64_t start, uint64_t end, const Is &is) const
{
    std::vector<Run> runs;
    uint64_t entries[8192];
    while (start < end) {
        const uint64_t want =
            std::min<uint64_t>((end - start) / image::kPageSize, std::size(entries));
        const ssize_t n = pread(fd_.get(), entries, want * sizeof(uint64_t),
                                static_cast<off_t>(start / image::kPageSize * sizeof(uint64_t)));
        if (n <= 0)
            return Error::from_errno("reading the page map", n < 0 ? errno : EIO);
        const uint64_t got = static_cast<uint64_t>(n) / sizeof(uint64_t);
        for (uint64_t i = 0; i < got; i++) {
            if (is(entries[i]))
                append(runs, start + i * image::kPageSize, start + (i + 1) * image::kPageSize);
        }
        start += got * image::kPageSize;
    }
    return runs;
}

bool PageMap::is_protected(uint64_t address) const
{
    const uint64_t start = address / image::kPageSize * image::kPageSize;
    const Result<std::vector<Run>> found =
        read(start, start + image::kPageSize,
             [](uint64_t entry) { return (entry & is_write_protected) != 0; });
    return found && !found->empty();
}

Result<PageMap::SoftDirtyBits> PageMap::soft_dirty(uint64_t start, uint64_t end) const
{
    SoftDirtyBits found;
    Result<std::vector<Run>> dirty = read(start, end, [&](uint64_t entry) {
        found.pages += is_own(entry) ? 1 : 0;
        return (entry & is_soft_dirty) != 0;
    });
    if (!dirty)
        return dirty.error();
    found.dirty = std::move(*dirty);
    return found;
}

bool PageMap::kernel_scans() const
{
    std::vector<Run> none;
    const Result<bool> scanned = scan(0, image::kPageSize, {0, PAGE_IS_PRESENT, 0}, none);
    return scanned && *scanned;
}

bool PageMap::tells_zeros() const
{
    std::vector<Run> none;
    const Result<bool> scanned =
        scan(0, image::kPageSize, {PAGE_IS_PFNZERO, 0, PAGE_IS_PRESENT}, none);
    return scanned && *scanned;
}

Result<std::vector<Run>> PageMap::apart(uint64_t start, uint64_t end) const
{
    return read(start, end, [](uint64_t entry) {
        return (entry & (is_exclusive | is_swapped)) != 0 && (entry & is_soft_dirty) == 0;
    });
}

Result<std::vector<Run>> PageMap::own_pages(uint64_t start, uint64_t end) const
{
    constexpr uint64_t not_its_own = PAGE_IS_FILE | PAGE_IS_PFNZERO;
    constexpr uint64_t there = PAGE_IS_PRESENT | PAGE_IS_SWAPPED;
    std::vector<Run> runs;
    Result<bool> scanned = scan(start, end, {not_its_own | PAGE_IS_GUARD, 0, there}, runs);
    if (scanned && !*scanned) // the kernel has no guards, or does not report them
        scanned = scan(start, end, {not_its_own, 0, there}, runs);
    if (!scanned)
        return scanned.error();
    if (!*scanned)
        return read(start, end, is_own);
    return runs;
}

Result<std::vector<Run>> PageMap::guards(uint64_t start, uint64_t end) const
{
    std::vector<Run> runs;
    Result<bool> scanned = scan(start, end, {0, PAGE_IS_GUARD, 0}, runs);
    if (!scanned)
        return scanned.error();
    return runs;
}

Result<uint64_t> save_runs(const std::vector<Run> &runs, Frozen &source, image::ImageWriter &writer,
                           uint32_t object, uint64_t shift, bool zeros_behind_file, int protection)
{
    uint64_t saved = 0;
    for (const Run &run : runs) {
        for (uint64_t at = run.start; at < run.end;) {
            Result<image::MutableBytes> space =
                writer.page_space((run.end - at) / image::kPageSize);
            if (!space)
                return space.error();
            const std::span<char> bytes(reinterpret_cast<char *>(space->data()), space->size());
            if (Result<void> got = source.read(at, bytes, zeros_behind_file, protection); !got)
                return got.error();
            const uint64_t pages = bytes.size() / image::kPageSize;
            if (Result<void> taken =
                    writer.take_pages(object, at / image::kPageSize - shift, pages);
                !taken)
                return taken.error();
            at += bytes.size();
            saved += pages;
        }
    }
    return saved;
}

namespace {

// Splits runs into parts of pages either all known to be as in the base, or all not known.
class Parts
{
  public:
    struct Part {
        uint64_t start, pages;
        bool known;
    };
    Parts(const std::vector<Run> &runs, PageDelta &delta) : runs_(runs), delta_(delta) {}

    std::optional<Part> next()
    {
        while (run_ < runs_.size() && at_ >= runs_[run_].end)
            run_++;
        if (run_ == runs_.size())
            return std::nullopt;
        at_ = std::max(at_, runs_[run_].start);
        const uint64_t most = std::min(largest, runs_[run_].end - at_) / image::kPageSize;
        const uint64_t known = delta_.known(at_ / image::kPageSize, most);
        const Part part = {at_, known > 0 ? known : delta_.unknown(at_ / image::kPageSize, most),
                           known > 0};
        at_ += part.pages * image::kPageSize;
        return part;
    }

    static constexpr uint64_t largest = 256 * 1024;

  private:
    const std::vector<Run> &runs_;
    PageDelta &delta_;
    size_t run_ = 0;
    uint64_t at_ = 0;
};

} // namespace

// Requests some parts ahead: a program changes single pages here and there, and waiting for each
// one separately would be slow.
Result<uint64_t> save_changed(const std::vector<Run> &runs, Frozen &source,
                              image::ImageWriter &writer, PageDelta &delta, bool zeros_behind_file,
                              int protection)
{
    std::vector<char> buffer(Parts::largest);
    Parts parts(runs, delta);
    constexpr size_t most_ahead = 4 * PageSource::most_asked;
    std::deque<Parts::Part> ahead;
    size_t asked = 0, not_asked = 0; // of the parts ahead that must be read
    std::vector<Run> wanted;
    uint64_t saved = 0;
    const auto is_read = [&](const Parts::Part &part) { return !part.known || delta.audits(); };
    for (;;) {
        const bool refill = not_asked == 0 && asked <= PageSource::most_asked / 2;
        wanted.clear();
        while (refill && asked + wanted.size() < PageSource::most_asked &&
               ahead.size() < most_ahead) {
            const std::optional<Parts::Part> part = parts.next();
            if (!part)
                break;
            ahead.push_back(*part);
            if (is_read(*part))
                wanted.push_back({part->start, part->start + part->pages * image::kPageSize});
        }
        if (!wanted.empty()) {
            const Result<size_t> taken = source.ask(wanted, zeros_behind_file, protection);
            if (!taken)
                return taken.error();
            asked += *taken;
            not_asked = wanted.size() - *taken;
        }
        if (ahead.empty())
            return saved;
        const Parts::Part part = ahead.front();
        ahead.pop_front();
        Frozen::View view;
        Result<void> done;
        if (is_read(part)) {
            (asked > 0 ? asked : not_asked)--;
            view = source.view(part.start, part.pages * image::kPageSize);
            if (view.bytes.empty()) {
                const std::span<char> to(buffer.data(), part.pages * image::kPageSize);
                done = source.read(part.start, to, zeros_behind_file, protection);
                view.bytes = {reinterpret_cast<const uint8_t *>(to.data()), to.size()};
            }
        }
        if (done && part.known && delta.audits())
            done = delta.audit(part.start / image::kPageSize, view.bytes);
        if (done && part.known)
            done = delta.leave(writer, part.start / image::kPageSize, part.pages);
        if (!done)
            return done.error();
        if (part.known)
            continue;
        Result<uint64_t> written =
            delta.write(writer, part.start / image::kPageSize, view.bytes, view.digests);
        if (!written)
            return written;
        saved += *written;
    }
}

} // namespace cryo::capture
