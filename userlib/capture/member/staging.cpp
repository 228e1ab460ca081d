// SPDX-License-Identifier: Apache-2.0
#include "capture/member/staging.hpp"

#include "capture/member/beside.hpp"
#include "capture/member/freezing.hpp"

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
Result<Staging::Contents> Staging::look_at_contents(const Tracker &tracker,
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
std::vector<Run> Staging::places_of_agent(const Tracker &tracker) const
{
    constexpr uint64_t small = 4 << 20, below = 1 << 20, above = 64 << 10;
    constexpr size_t many_threads = 256;
    const auto around = [](uint64_t address, uint64_t before, uint64_t after) {
        return Run{std::max(address, before) / image::kPageSize * image::kPageSize -
                       before / image::kPageSize * image::kPageSize,
                   (address + after) / image::kPageSize * image::kPageSize};
    };
    std::vector<Run> places;
    for (const Run &mapping : tracker.watched()) {
        if (mapping.end - mapping.start <= small || d_.threads.size() > many_threads)
            places.push_back(mapping);
    }
    for (const image::Thread &thread : d_.threads) {
        places.push_back(around(thread.sp, below, above));
        places.push_back(around(thread.fs_base, below, above));
        places.push_back(around(thread.altstack_sp, 0, thread.altstack_size + image::kPageSize));
    }
    places.push_back(around(tracker.mark(), small, small));
    return in_order(std::move(places));
}

// A stack page that was unchanged until the agent wrote to it is copied in the next round. A page
// copied already is not copied again: what the agent writes lies below the stack pointers, where
// its contents do not matter. Nothing else writes while the threads are stopped, so the rest of the
// memory, however large, need not be scanned again.
Result<std::vector<Run>> Staging::copy_changed(Tracker &tracker, Stage &stage,
                                               std::vector<Run> changed, std::vector<Run> unchanged)
{
    constexpr int most_times = 3;
    const std::vector<Run> places = places_of_agent(tracker);
    for (int i = 0; i < most_times; i++) {
        if (Result<void> taken = stage.take(process_.agent(), changed); !taken)
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

std::unique_ptr<Frozen> Staging::freeze(Tracker &tracker, bool whatever_it_costs)
{
    const Unchanged &known = changes_.unchanged();
    if (!known.since || known.audit)
        return nullptr;
    const DeltaPlan::Base &base = *common_.delta->base_of(d_.proc.pid());
    const std::vector<Run> clean = changes_.parts_seen(tracker, &PageMap::Written::kept);
    const std::vector<Run> copied = changes_.parts_seen(tracker, &PageMap::Written::copied);
    const auto room = common_.stages.find(d_.proc.pid());
    const bool has_room = room != common_.stages.end();
    Held held = {.pages = private_pages(d_.proc),
                 .huge = d_.huge_pages(),
                 .changed = without(changes_.parts_seen(tracker, &PageMap::Written::own), copied),
                 .room = has_room ? room->second.room() : 0,
                 .writes_per_s = base.writes_per_s};
    // A lower bound of the changes: it may already show that a copy is made faster.
    costs_ = estimate(held);
    if (!whatever_it_costs && costs_.best() == Method::fork)
        return nullptr;
    Result<Contents> contents = look_at_contents(tracker, clean);
    if (!contents)
        return nullptr;
    const std::vector<Run> &in_base =
        known.since == base.pages ? base.left_by_base : base.left_by_previous;
    std::vector<Run> all = contents->own;
    if (d_.memory.vdso_size != 0)
        all.push_back({d_.memory.vdso_start, d_.memory.vdso_start + d_.memory.vdso_size});
    std::ranges::sort(all, {}, &Run::start);
    std::vector<Run> unchanged = common_part(common_part(all, clean), in_base);
    std::vector<Run> changed = without(without(all, unchanged), copied);
    held.pages = size_of(all) / image::kPageSize;
    held.changed = changed;
    costs_ = estimate(held);
    const bool best = costs_.best() == Method::staged;
    if (!has_room || (!best && (!whatever_it_costs || costs_.staged == Costs::cannot)))
        return nullptr;
    // Not erased from the map, because other members search it at the same time.
    Stage stage = std::move(room->second);
    stage.keep(copied);
    early_pages_ = size_of(copied) / image::kPageSize;
    // There will be no copy in which the early look could be verified.
    std::future<Result<bool>> look;
    if (!d_.early.can_wait())
        look = beside([this] { return d_.early.held_in_stop(d_.proc, d_.watched); });
    Result<std::vector<Run>> kept =
        copy_changed(tracker, stage, std::move(changed), std::move(unchanged));
    is_unseen_ = !look.valid();
    const Result<bool> held_still = look.valid() ? look.get() : true;
    if (!kept || !held_still || !*held_still)
        return nullptr;
    pages_ = (size_of(all) - size_of(*kept)) / image::kPageSize - early_pages_;
    changes_.set_unchanged(std::move(*kept));
    return std::make_unique<Staged>(std::move(stage), std::move(contents->own),
                                    std::move(contents->guards), d_.proc.pid(), common_.moved);
}

} // namespace cryo::capture
