// SPDX-License-Identifier: Apache-2.0
#include "restore/plan_copies.hpp"

#include "resources/about_process.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>

namespace cryo::restore {

using capture::Run;
using image::Image;
using image::Region;
using image::RegionKind;

namespace {

constexpr uint64_t page_size = image::kPageSize;

// Where the region has contents in the image.
Result<std::vector<Run>> runs_of(Image &image, const Region &region)
{
    const Result<std::vector<Range>> parts = contents_of(image, region);
    if (!parts)
        return parts.error();
    std::vector<Run> runs;
    runs.reserve(parts->size());
    for (const auto &[start, end] : *parts)
        runs.push_back({start, end});
    return runs;
}

std::vector<Range> ranges_of(const std::vector<Run> &runs)
{
    std::vector<Range> ranges;
    ranges.reserve(runs.size());
    for (const auto &[start, end] : runs)
        ranges.push_back({start, end});
    return ranges;
}

// Memory that fork() shares until a process writes to it, and that is mapped as it was.
bool is_kept_by_fork(const Region &region)
{
    constexpr uint32_t others = image::kRegionShared | image::kRegionGrowsDown |
                                image::kRegionDroppable | image::kRegionReadOnly;
    return (region.kind == RegionKind::anonymous || region.kind == RegionKind::heap ||
            region.kind == RegionKind::private_file) &&
           (region.flags & others) == 0 && region.numa_mode == MPOL_DEFAULT;
}

// Whether both would be mapped in the same way, except for their begin and end.
bool are_alike(const Region &a, const Region &b)
{
    return is_kept_by_fork(a) && is_kept_by_fork(b) && a.kind == b.kind && a.flags == b.flags &&
           a.prot == b.prot && a.file == b.file &&
           (a.file == 0 || a.file_offset - a.start == b.file_offset - b.start);
}

// Calls `f(region, its parent's, range)` for the beginning of each region that both processes have.
template <class F>
Result<void> for_each_common(const Saved &saved, const Saved &parents, F &&f)
{
    for (const Region &region : saved.regions()) {
        const auto its =
            std::ranges::upper_bound(parents.regions(), region.start, {}, &Region::end);
        if (its == parents.regions().end() || its->start > region.start || !are_alike(region, *its))
            continue;
        const Run both = {region.start, std::min(region.end, its->end)};
        if (Result<void> done = f(region, *its, both); !done)
            return done;
    }
    return {};
}

// Whether all of the region is mapped so that it can be filled.
Result<bool> is_open(Image &image, const Region &region)
{
    const Result<std::vector<Stretch>> stretches = stretches_of(image, region);
    if (!stretches)
        return stretches.error();
    return stretches->size() == 1 && (stretches->front().prot & PROT_WRITE) != 0;
}

// Reads the same pages of both images, and compares them.
class PagePairs
{
  public:
    PagePairs(Image &image, Image &parent) : image_(image), parent_(parent) {}

    // Appends to `changed` what differs within the range.
    Result<void> compare(const Region &region, const Region &its, const Run &range,
                         std::vector<Run> &changed);

  private:
    static constexpr uint64_t at_once = 256 * page_size;

    Result<void> take_runs(const Region &region, const Run &range, std::vector<Run> &changed);

    Image &image_, &parent_;
    std::vector<uint8_t> own_ = std::vector<uint8_t>(at_once);
    std::vector<uint8_t> other_ = std::vector<uint8_t>(at_once);
};

// The image is a delta of the parent's: what it does not leave to that is not as in that.
Result<void> PagePairs::take_runs(const Region &region, const Run &range, std::vector<Run> &changed)
{
    for (uint64_t at = range.start; at < range.end;) {
        const uint64_t page = region.object_page + (at - region.start) / page_size;
        const Result<image::Run> run = image_.find(region.object, page);
        if (!run)
            return run.error();
        if (run->count == 0)
            return Error(EINVAL, "the image's index is empty where memory should be");
        const uint64_t end = at + std::min(run->count * page_size, range.end - at);
        if (run->hole || run->kind != image::ExtentKind::base || run->source != page)
            changed.push_back({at, end});
        at = end;
    }
    return {};
}

Result<void> PagePairs::compare(const Region &region, const Region &its, const Run &range,
                                std::vector<Run> &changed)
{
    const bool same_pages =
        region.object == its.object &&
        region.object_page - region.start / page_size == its.object_page - its.start / page_size;
    if (same_pages && image_.header().base_id == parent_.header().id)
        return take_runs(region, range, changed);
    for (uint64_t at = range.start; at < range.end;) {
        const uint64_t size = std::min(range.end - at, at_once);
        const auto read = [&](Image &from, const Region &of, std::vector<uint8_t> &to) {
            return from.read_pages(of.object, of.object_page + (at - of.start) / page_size,
                                   {to.data(), size});
        };
        if (Result<void> done = read(image_, region, own_); !done)
            return done;
        if (Result<void> done = read(parent_, its, other_); !done)
            return done;
        for (uint64_t offset = 0; offset < size; offset += page_size) {
            if (memcmp(&own_[offset], &other_[offset], page_size) != 0)
                changed.push_back({at + offset, at + offset + page_size});
        }
        at += size;
    }
    return {};
}

// Copying page tables costs, too: what both have must be a good part of what the parent has.
Result<bool> is_worth_it(Image &image, const Saved &saved, Image &parent, const Saved &parents)
{
    constexpr uint64_t least = 1 << 20;
    constexpr uint64_t least_part = 64;
    uint64_t all = 0;
    for (const Region &region : parents.regions()) {
        if (is_kept_by_fork(region))
            all += region.saved * page_size;
    }
    uint64_t bytes = 0;
    Result<void> done = for_each_common(
        saved, parents,
        [&](const Region &region, const Region &its, const Run &both) -> Result<void> {
            const Result<std::vector<Run>> own = runs_of(image, region);
            const Result<std::vector<Run>> other = runs_of(parent, its);
            if (!own || !other)
                return own ? other.error() : own.error();
            bytes += size_of(part_of(common_part(*own, *other), both));
            return {};
        });
    if (!done)
        return done.error();
    return bytes >= std::max(least, all / least_part);
}

// Which processes may be copies of their parents, by number.
class Choice
{
  public:
    Choice(TreePlan &tree, std::span<const Saved *const> saved) : tree_(tree), saved_(saved) {}

    Result<std::vector<bool>> choose();

  private:
    const Saved *saved_of(size_t number) const
    {
        return number < saved_.size() ? saved_[number] : nullptr;
    }
    bool are_kin(size_t number) const;
    bool has_made_children(size_t number) const;

    TreePlan &tree_;
    std::span<const Saved *const> saved_;
    std::vector<bool> chosen_;
};

// Whether fork() alone made the process from its parent, which precedes it in the list.
bool Choice::are_kin(size_t number) const
{
    const Newborn &kin = tree_.processes[number].kin;
    const Saved *own = saved_of(number);
    if (own == nullptr || kin.parent < 0 || static_cast<size_t>(kin.parent) >= number)
        return false;
    const auto parent = static_cast<size_t>(kin.parent);
    const Newborn &its = tree_.processes[parent].kin;
    const Saved *parents = saved_of(parent);
    return parents != nullptr && kin.session == its.session && kin.group == its.group &&
           kin.group != static_cast<int>(number) && kin.session != static_cast<int>(number) &&
           own->process.exe == parents->process.exe &&
           own->process.personality == parents->process.personality &&
           own->process.thp_disable == parents->process.thp_disable &&
           own->process.thp_advised == parents->process.thp_advised;
}

// Whether it has a child that the nursery makes, before any execve.
bool Choice::has_made_children(size_t number) const
{
    for (size_t i = 0; i < tree_.processes.size(); i++) {
        if (tree_.processes[i].kin.parent == static_cast<int>(number) && !chosen_[i])
            return true;
    }
    return false;
}

// Children follow their parents in the list, so the descendants of a process are decided before it.
Result<std::vector<bool>> Choice::choose()
{
    chosen_.assign(tree_.processes.size(), false);
    for (size_t i = tree_.processes.size(); i-- > 1;) {
        if (!are_kin(i) || has_made_children(i))
            continue;
        const auto parent = static_cast<size_t>(tree_.processes[i].kin.parent);
        const Result<bool> worth_it = is_worth_it(*tree_.processes[i].image, *saved_[i],
                                                  *tree_.processes[parent].image, *saved_[parent]);
        if (!worth_it)
            return worth_it.error();
        chosen_[i] = *worth_it;
    }
    return chosen_;
}

// Gives each copy below `parent` its descriptors, those of its own copies behind them.
void give_numbers(TreePlan &tree, std::span<const Saved *const> saved,
                  const std::vector<bool> &chosen, size_t parent, size_t family, int &next)
{
    for (size_t i = parent + 1; i < chosen.size(); i++) {
        TreePlan::Process &process = tree.processes[i];
        if (!chosen[i] || process.kin.parent != static_cast<int>(parent))
            continue;
        process.kin.is_copy = true;
        process.family = static_cast<int>(family);
        process.descriptors = next;
        next += copy_descriptors;
        give_numbers(tree, saved, chosen, i, family, next);
        tree.processes[parent].plan->copies.push_back({process.kin.pid, saved[i]->process.pid,
                                                       process.descriptors, next,
                                                       process.kin.shares});
    }
}

// Whether there is a pidfd, or a file of /proc about another process than the first, which opens
// its own by itself.
bool is_opened_before_execve(const Saved &first)
{
    return !first.of<image::Pidfd>().empty() ||
           std::ranges::any_of(first.open_files(), [&](const auto &entry) {
               const auto file = first.files().find(entry.second.file);
               if (file == first.files().end() || file->second.kind == image::FileKind::other)
                   return false;
               const auto about = resources::about_process(file->second.path);
               return about && (about->pid != first.process.pid ||
                                std::ranges::find(first.descriptors(), entry.first,
                                                  &image::Descriptor::open_file) ==
                                    first.descriptors().end());
           });
}

} // namespace

Result<void> choose_copies(TreePlan &tree, std::span<const Saved *const> saved,
                           const RestartOptions &options)
{
    // Lazy memory is mapped from an image.
    if (options.lazy || is_opened_before_execve(*saved.front()))
        return {};
    const Result<std::vector<bool>> chosen = Choice(tree, saved).choose();
    if (!chosen)
        return chosen.error();
    const int first = tree.processes.front().plan->first_free();
    int next = first;
    for (size_t i = 0; i < chosen->size(); i++) {
        if (tree.processes[i].plan && !(*chosen)[i])
            give_numbers(tree, saved, *chosen, i, i, next);
    }
    for (TreePlan::Process &process : tree.processes) {
        if (process.plan)
            process.plan->handed_down = next - first;
    }
    return {};
}

Result<KeptMemory> compare_with_parent(Image &image, const Saved &saved, Image &parent,
                                       const Saved &parents)
{
    KeptMemory memory;
    PagePairs pairs(image, parent);
    Result<void> done = for_each_common(
        saved, parents,
        [&](const Region &region, const Region &its, const Run &both) -> Result<void> {
            const Result<bool> open = is_open(image, region);
            const Result<bool> its_open = is_open(parent, its);
            if (!open || !its_open)
                return open ? its_open.error() : open.error();
            if (!*open || !*its_open)
                return {};
            const Result<std::vector<Run>> own = runs_of(image, region);
            const Result<std::vector<Run>> other = runs_of(parent, its);
            if (!own || !other)
                return own ? other.error() : own.error();
            memory.kept.push_back(both);
            if (both.end < region.end)
                memory.grown.push_back({both.start, both.end, region.end});
            const std::vector<Run> filled = part_of(*own, both);
            const std::vector<Run> theirs = part_of(*other, both);
            const std::vector<Run> emptied = without(theirs, filled);
            std::vector<Run> changed = without(filled, theirs);
            for (const Run &part : common_part(filled, theirs)) {
                Result<void> compared = pairs.compare(region, its, part, changed);
                if (!compared)
                    return compared;
            }
            changed = in_order(std::move(changed));
            memory.emptied.insert(memory.emptied.end(), emptied.begin(), emptied.end());
            memory.changed.insert(memory.changed.end(), changed.begin(), changed.end());
            return {};
        });
    return done ? Result<KeptMemory>(std::move(memory)) : done.error();
}

bool is_kept(const Planning &p, const Region &region)
{
    return p.kept != nullptr &&
           std::ranges::binary_search(p.kept->kept, region.start, {}, &Run::start);
}

std::vector<Range> to_be_sent(const Planning &p, const Region &region,
                              const std::vector<Range> &parts)
{
    if (!is_kept(p, region))
        return parts;
    std::vector<Run> filled;
    filled.reserve(parts.size());
    for (const auto &[start, end] : parts)
        filled.push_back({start, end});
    const Run whole = {region.start, region.end};
    return ranges_of(
        united(without(filled, part_of(p.kept->kept, whole)), part_of(p.kept->changed, whole)));
}

void plan_keeping(Planning &p)
{
    const std::vector<Range> kept = ranges_of(p.kept->kept);
    p.plan.program.add(
        Do::keep, "giving up what is not as in the parent",
        {p.plan.program.data(kept.data(), kept.size() * sizeof(Range)), value(kept.size())});
}

void plan_growing(Planning &p)
{
    for (const auto &[start, kept_end, end] : p.kept->grown)
        p.plan.program.call_exact(
            fmt::format("growing memory at {:x}", start), SYS_mremap, start,
            {value(start), value(kept_end - start), value(end - start), value(0)});
}

void plan_emptying(Planning &p)
{
    const std::vector<Range> emptied = ranges_of(p.kept->emptied);
    p.plan.program.add(Do::empty, "emptying memory",
                       {p.plan.program.data(emptied.data(), emptied.size() * sizeof(Range)),
                        value(emptied.size())});
}

void plan_making_copies(Planning &p)
{
    for (const Copy &copy : p.plan.copies)
        p.plan.program.add(
            Do::fork,
            fmt::format("making a copy of the process with the pid {} (which may be in use here; "
                        "with --pidns all ids are free; --no-restore-pid gives new ones)",
                        copy.saved_pid),
            {value(copy.pid), value(copy.descriptors), value(copy.end), value(p.plan.floor),
             value(p.plan.first_free()), value(copy.shares)});
}

} // namespace cryo::restore
