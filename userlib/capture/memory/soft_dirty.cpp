// SPDX-License-Identifier: Apache-2.0
//
// The kernel cannot read and clear the bits in one step, and a mapping's bits do not say where its
// pages came from. So, while the program is stopped:
//
// 1. arm(): a mapping registered with the agent's userfaultfd, which has no other use, is the
//    same one that was registered earlier. mremap moves whole page tables with their bits, but
//    moved memory is not registered, and neither is new memory or a mapping that was joined with
//    new memory.
// 2. The copy of the process is made. It inherits the bits, and only the copy itself can write
//    to it, so they are read from the copy when the program runs again. Now all pages are shared
//    with the copy, and writing to one faults, even if it is being migrated at the moment (a
//    page that is migrated while its bit is cleared may come back writable).
// 3. copied(): the bits are cleared. What was written between 2 and 3 is not in the copy, and its
//    bit is lost. But such a page is no longer shared with the copy, and its bit is clear: these
//    pages are looked for and recorded in the image, and the next image reads them.
//
// The agent's marks show whether another tool has cleared the bits since the previous image.
#include "capture/memory/soft_dirty.hpp"

#include "capture/memory/frozen.hpp"
#include "capture/memory/userfaultfd.hpp"
#include "look/address_range.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cryo::capture {

using agent::TrackerKind;

namespace {

constexpr uint64_t page = image::kPageSize;
constexpr size_t most_unsure = 4096;

enum class Marks {
    as_left, // as we left them
    fresh,   // never cleared since the mapping was made
    cleared, // cleared later by another process
};

Result<Marks> look_at(const PageMap &map, uint64_t marks)
{
    Result<PageMap::SoftDirtyBits> bits = map.soft_dirty(marks, marks + 2 * page);
    if (!bits)
        return bits.error();
    const auto is_dirty = [&](uint64_t at) {
        return without({{at, at + page}}, bits->dirty).empty();
    };
    if (is_dirty(marks + page))
        return Marks::fresh;
    return is_dirty(marks) ? Marks::as_left : Marks::cleared;
}

// A kernel without CONFIG_MEM_SOFT_DIRTY accepts the request but sets no bit.
bool kernel_has_bits()
{
    void *memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    *static_cast<volatile char *>(memory) = 1;
    const auto at = reinterpret_cast<uint64_t>(memory);
    Result<PageMap> map = PageMap::open(Proc(getpid()));
    Result<PageMap::SoftDirtyBits> bits = map ? map->soft_dirty(at, at + page) : map.error();
    munmap(memory, page);
    return bits && !bits->dirty.empty();
}

// KSM loses the bit of a page that it merges. It merges nothing before its first full scan is
// complete.
bool merges_pages()
{
    const Proc kernel(getpid());
    const std::string memory = "/sys/kernel/mm";
    if (access((memory + "/ksm").c_str(), F_OK) != 0)
        return access(memory.c_str(), F_OK) != 0; // no KSM in this kernel; or unknown
    const Result<std::string> scans = kernel.read("../.." + memory + "/ksm/full_scans");
    return !scans || *scans != "0\n";
}

} // namespace

std::vector<CountedMapping> counted_mappings(std::string_view smaps)
{
    std::vector<CountedMapping> found;
    while (!smaps.empty()) {
        std::string_view line = take_line(smaps);
        const size_t word = line.find(' ');
        if (word == std::string_view::npos || word == 0)
            continue;
        if (line[word - 1] == ':') {
            const std::string_view key = take_word(line);
            if (!found.empty() && (key == "Anonymous:" || key == "Swap:"))
                found.back().pages += take_number(line) * 1024 / page;
            continue;
        }
        if (const std::optional<Run> range = take_range(line))
            found.push_back({*range, 0});
    }
    return found;
}

std::unique_ptr<Tracker> SoftDirty::probe(AgentSession &session, const Proc &proc)
{
    if (!kernel_is_at_least(6, 1) || !kernel_has_bits() || merges_pages())
        return nullptr;
    Result<TrackerLink> link = session.memory().tracker(TrackerKind::soft_dirty);
    if (!link || !link->fd || (link->notes & agent::note_foreign) != 0)
        return nullptr;
    Result<PageMap> map = PageMap::open(proc);
    Result<Fd> clear = proc.open("clear_refs", O_WRONLY);
    Result<Marks> marks = map ? look_at(*map, link->marks) : map.error();
    if (!marks || !clear)
        return nullptr;
    // Another tool uses the bits, and would miss what we clear.
    const bool is_watched = link->token != TrackerToken{};
    const bool was_cleared =
        is_watched ? *marks == Marks::cleared
                   : (link->notes & agent::note_cleared) == 0 && *marks != Marks::fresh;
    if (was_cleared) {
        static_cast<void>(session.memory().stop_watching(agent::note_foreign));
        return nullptr;
    }
    if (*marks != Marks::as_left)
        link->token = {};
    return std::unique_ptr<Tracker>(
        new SoftDirty(session, std::move(*link), std::move(*map), std::move(*clear)));
}

// `before`: the registered mappings.
Result<void> SoftDirty::arm(const std::vector<Run> &mappings, const std::vector<Run> &before,
                            bool continues, const TrackerToken &token)
{
    constexpr uint64_t least_size = 16 * page; // smaller mappings are hashed faster than watched
    if (Result<void> told = session_.memory().set_watched({}, agent::note_cleared); !told)
        return told;
    token_ = {};
    next_ = token;
    for (const Run &mapping : without(before, mappings)) {
        uffdio_range range = {mapping.start, mapping.end - mapping.start};
        if (ioctl(uffd_.get(), UFFDIO_UNREGISTER, &range) != 0)
            return Error::from_errno("watching memory", errno);
    }
    for (const Run &mapping : mappings) {
        if (is_registered(uffd_, map_, RemoteAddress(mapping.start))) {
            if (continues)
                known_.push_back(mapping);
        } else if (mapping.end - mapping.start < least_size || !is_watched_by(uffd_, mapping)) {
            continue;
        }
        watched_.push_back(mapping);
    }
    if (watched_.empty())
        return Error(ENOENT, "the process has no memory that can be watched");
    return {};
}

Result<void> SoftDirty::find_unsure()
{
    for (const Run &mapping : watched_) {
        Result<std::vector<Run>> apart = map_.apart(mapping.start, mapping.end);
        if (!apart)
            return apart.error();
        unsure_.insert(unsure_.end(), apart->begin(), apart->end());
    }
    if (unsure_.size() > most_unsure)
        return Error(EBUSY, "memory changes while the program stands still");
    return {};
}

Result<void> SoftDirty::copied(Frozen &copy)
{
    Result<PageMap> map = PageMap::open(Proc(copy.pid()));
    if (!map)
        return map.error();
    frozen_ = &copy;
    is_scanned_ = copy.can_scan() && may_use(module_name);
    if (!is_scanned_ && !may_use(soft_dirty_name))
        return Error(EOPNOTSUPP,
                     "the kernel module, which reads the soft-dirty bits, is not available");
    copys_map_.emplace(std::move(*map));
    if (write(clear_.get(), "4", 1) != 1)
        return Error::from_errno("clearing soft-dirty bits", errno);
    // From here on a foreign clearing is detected; what an earlier one erased is found now.
    if (Result<void> told = session_.memory().set_watched(next_); !told)
        return told;
    if (Result<void> found = find_unsure(); !found)
        return found;
    token_ = next_;
    return {};
}

// A page given back (MADV_DONTNEED) and since then only read is the zero page, has no bit, and
// looks like any page shared by the copy and the process. But smaps counts only the other pages: if
// its count equals the number of pages, the mapping has no zero page. Bits first, smaps second: a
// page freed by the kernel in between (MADV_FREE) lowers only the smaps count.
Result<std::vector<Run>> SoftDirty::clean_of(const std::vector<Run> &mappings) const
{
    std::vector<Run> all;
    std::vector<uint64_t> pages;
    std::vector<std::vector<Run>> clean;
    for (const Run &mapping : mappings) {
        Result<PageMap::SoftDirtyBits> bits = copys_map_->soft_dirty(mapping.start, mapping.end);
        if (!bits)
            return bits.error();
        pages.push_back(bits->pages);
        clean.push_back(without({mapping}, bits->dirty));
    }
    std::vector<CountedMapping> counted;
    if (!copys_map_->tells_zeros()) {
        Result<std::string> smaps = Proc(frozen_->pid()).read("smaps");
        if (!smaps)
            return smaps.error();
        counted = counted_mappings(*smaps);
    }
    for (size_t i = 0; i < mappings.size(); i++) {
        const auto has_no_zeros = [&](const CountedMapping &one) {
            return one.mapping.start == mappings[i].start && one.mapping.end == mappings[i].end &&
                   one.pages == pages[i];
        };
        if (copys_map_->tells_zeros() || std::ranges::any_of(counted, has_no_zeros))
            all.insert(all.end(), clean[i].begin(), clean[i].end());
    }
    return all;
}

// The module distinguishes zero pages from others.
Result<std::vector<Run>> SoftDirty::scanned(const std::vector<Run> &mappings) const
{
    std::vector<Run> all;
    for (const Run &mapping : mappings) {
        Result<std::vector<Run>> clean = frozen_->unwritten(mapping.start, mapping.end);
        if (!clean)
            return clean;
        all.insert(all.end(), clean->begin(), clean->end());
    }
    return all;
}

Result<std::vector<Run>> SoftDirty::clean()
{
    if (known_.empty())
        return std::vector<Run>();
    Result<Marks> marks = look_at(*copys_map_, marks_);
    Result<std::string> maps = Proc(frozen_->pid()).read("maps");
    if (!marks || !maps)
        return marks ? maps.error() : marks.error();
    if (*marks != Marks::as_left)
        return Error(EBUSY, "somebody else clears soft-dirty bits");
    // Registering may have joined some mappings.
    std::vector<Run> mappings;
    for (const CountedMapping &one : counted_mappings(*maps)) {
        if (!common_part({one.mapping}, known_).empty())
            mappings.push_back(one.mapping);
    }
    Result<std::vector<Run>> clean = is_scanned_ ? scanned(mappings) : clean_of(mappings);
    if (!clean)
        return clean;
    return common_part(*clean, known_);
}

void SoftDirty::disarm()
{
    watched_.clear();
    known_.clear();
    unsure_.clear();
    token_ = {};
    uffd_.reset();
    static_cast<void>(session_.memory().stop_watching());
}

} // namespace cryo::capture
