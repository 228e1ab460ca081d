// SPDX-License-Identifier: Apache-2.0
// Freezes a member without a copy of it: pages changed since its base are copied in the stop. No
// failure here is an error: a copy is made instead.
#include "capture/beside.hpp"
#include "capture/member.hpp"

#include <algorithm>
#include <cerrno>

namespace cryo::capture {

namespace {

// The pages of a mapping, if the changed and unchanged ones are known: what remains is mostly
// holes, and pages that the agent has written since.
Result<std::vector<Run>> own_pages_of(const Tracker::Seen &seen, const std::vector<Run> &clean,
                                      const PageMap &map)
{
    constexpr size_t many = 64; // more than that: scanning the whole mapping is faster
    const std::vector<Run> known = united(clean, seen.written.own);
    const std::vector<Run> rest = without({seen.mapping}, known);
    if (rest.size() > many)
        return map.own_pages(seen.mapping.start, seen.mapping.end);
    std::vector<Run> found;
    for (const Run &run : rest) {
        Result<std::vector<Run>> own = map.own_pages(run.start, run.end);
        if (!own)
            return own;
        found.insert(found.end(), own->begin(), own->end());
    }
    return united(known, found);
}

} // namespace

// All pages of the address space that the image needs, and the guard pages.
Result<Member::Contents> Member::look_at_contents(const Tracker &tracker,
                                                  const std::vector<Run> &clean) const
{
    Result<PageMap> map = PageMap::open(d_.proc);
    if (!map)
        return map.error();
    Contents found;
    for (const image::Region &region : d_.regions) {
        if (!is_frozen(region))
            continue;
        const Run mapping = {region.start, region.end};
        const Tracker::Seen *seen = tracker.seen(mapping);
        const bool whole = (region.flags & image::kRegionAllSaved) != 0;
        Result<std::vector<Run>> own = std::vector<Run>{mapping};
        if (seen != nullptr)
            own = own_pages_of(*seen, inside(clean, mapping.start, mapping.end), *map);
        else if (!whole)
            own = map->own_pages(mapping.start, mapping.end);
        Result<std::vector<Run>> guards =
            seen != nullptr ? seen->written.guards : map->guards(mapping.start, mapping.end);
        if (!own || !guards)
            return own ? guards.error() : own.error();
        found.own.insert(found.own.end(), own->begin(), own->end());
        found.guards.insert(found.guards.end(), guards->begin(), guards->end());
    }
    return found;
}

// Where the agent may write while the program is stopped: below the threads' stack pointers, near
// thread-local storage, and in its own memory. Small mappings are included as a whole.
std::vector<Run> Member::places_of_agent(const Tracker &tracker) const
{
    constexpr uint64_t small = 4 << 20, below = 1 << 20, above = 64 << 10;
    constexpr size_t many_threads = 256;
    const auto around = [](uint64_t address, uint64_t before, uint64_t after) {
        return Run{std::max(address, before) / 4096 * 4096 - before / 4096 * 4096,
                   (address + after) / 4096 * 4096};
    };
    std::vector<Run> places;
    for (const Run &mapping : tracker.watched()) {
        if (mapping.end - mapping.start <= small || d_.threads.size() > many_threads)
            places.push_back(mapping);
    }
    for (const image::Thread &thread : d_.threads) {
        places.push_back(around(thread.sp, below, above));
        places.push_back(around(thread.fs_base, below, above));
        places.push_back(around(thread.altstack_sp, 0, thread.altstack_size + 4096));
    }
    places.push_back(around(tracker.mark(), small, small));
    return in_order(std::move(places));
}

// A stack page that was unchanged until the agent wrote to it is copied in the next round. A page
// copied already is not copied again: what the agent writes lies below the stack pointers, where
// its contents do not matter. Nothing else writes while the threads are stopped, so the rest of the
// memory, however large, need not be scanned again.
Result<std::vector<Run>> Member::copy_changed(Tracker &tracker, Stage &stage,
                                              std::vector<Run> changed, std::vector<Run> unchanged)
{
    constexpr int most_times = 3;
    const std::vector<Run> places = places_of_agent(tracker);
    for (int i = 0; i < most_times; i++) {
        if (Result<void> taken = stage.take(*session_, changed); !taken)
            return taken.error();
        Result<std::vector<Run>> written = tracker.written(places);
        if (!written)
            return written.error();
        changed = common_part(unchanged, *written);
        if (changed.empty())
            return unchanged;
        unchanged = without(unchanged, changed);
    }
    return Error(EBUSY, "memory changes while the program stands still");
}

// From what was seen when the tracker was armed; copy_changed() finds what the agent has written
// since.
std::vector<Run> Member::parts_seen(const Tracker &tracker,
                                    std::vector<Run> PageMap::Written::*part) const
{
    std::vector<Run> found;
    for (const image::Region &region : d_.regions) {
        if (const Tracker::Seen *seen = tracker.seen({region.start, region.end}); seen != nullptr) {
            const std::vector<Run> &runs = seen->written.*part;
            found.insert(found.end(), runs.begin(), runs.end());
        }
    }
    return found;
}

bool Member::stage(Tracker &tracker, bool whatever_it_costs)
{
    if (!unchanged_.since || unchanged_.audit)
        return false;
    const DeltaPlan::Base &base = *common_.delta->base_of(relation_.pid);
    const std::vector<Run> clean = parts_seen(tracker, &PageMap::Written::kept);
    const std::vector<Run> copied = parts_seen(tracker, &PageMap::Written::copied);
    const auto room = common_.stages.find(relation_.pid);
    const bool has_room = room != common_.stages.end();
    Held held = {.pages = own_pages(),
                 .huge = d_.huge_pages(),
                 .changed = without(parts_seen(tracker, &PageMap::Written::own), copied),
                 .room = has_room ? room->second.room() : 0,
                 .writes_per_s = base.writes_per_s};
    // A lower bound of the changes: it may already show that a copy is made faster.
    costs_ = estimate(held);
    if (!whatever_it_costs && costs_.best() == Method::fork)
        return false;
    Result<Contents> contents = look_at_contents(tracker, clean);
    if (!contents)
        return false;
    const std::vector<Run> &in_base =
        unchanged_.since == base.pages ? base.left_by_base : base.left_by_previous;
    std::vector<Run> all = contents->own;
    if (d_.memory.vdso_size != 0)
        all.push_back({d_.memory.vdso_start, d_.memory.vdso_start + d_.memory.vdso_size});
    std::ranges::sort(all, {}, &Run::start);
    std::vector<Run> unchanged = common_part(common_part(all, clean), in_base);
    std::vector<Run> changed = without(without(all, unchanged), copied);
    held.pages = size_of(all) / 4096;
    held.changed = changed;
    costs_ = estimate(held);
    const bool best = costs_.best() == Method::staged;
    if (!has_room || (!best && (!whatever_it_costs || costs_.staged == Costs::cannot)))
        return false;
    // Not erased from the map, because other members search it at the same time.
    Stage stage = std::move(room->second);
    stage.keep(copied);
    early_pages_ = size_of(copied) / 4096;
    // There will be no copy in which the early look could be verified.
    std::future<Result<bool>> look;
    if (!d_.early.can_wait())
        look = beside([this] { return d_.early.held_in_stop(d_.proc, d_.watched); });
    Result<std::vector<Run>> kept =
        copy_changed(tracker, stage, std::move(changed), std::move(unchanged));
    staged_unseen_ = !look.valid();
    const Result<bool> held_still = look.valid() ? look.get() : true;
    if (!kept || !held_still || !*held_still)
        return false;
    unchanged_.runs = std::move(*kept);
    frozen_ = std::make_unique<Staged>(std::move(stage), std::move(contents->own),
                                       std::move(contents->guards), relation_.pid, common_.moved);
    method_ = Method::staged;
    staged_pages_ = (size_of(all) - size_of(unchanged_.runs)) / 4096 - early_pages_;
    return true;
}

} // namespace cryo::capture
