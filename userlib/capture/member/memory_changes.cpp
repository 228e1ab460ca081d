// SPDX-License-Identifier: Apache-2.0
#include "capture/member/memory_changes.hpp"

#include "sys/own_variable.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fmt/format.h>
#include <sys/random.h>
#include <utility>

namespace cryo::capture {

namespace {

bool is_set(const TrackerToken &token)
{
    return token != TrackerToken{};
}

// Only memory that cannot be written except through the process's own page tables.
bool is_watchable(const image::Region &region)
{
    constexpr uint32_t others = image::kRegionShared | image::kRegionGrowsDown |
                                image::kRegionDontFork | image::kRegionWipeOnFork |
                                image::kRegionAllSaved | image::kRegionDroppable;
    const bool anonymous =
        region.kind == image::RegionKind::anonymous || region.kind == image::RegionKind::heap;
    return anonymous && region.file == 0 && (region.flags & others) == 0;
}

} // namespace

std::vector<Run> MemoryChanges::watchable() const
{
    std::vector<Run> found;
    // Code in the process that is not the program's is not stopped, so nothing is watched.
    if (!d_.left_out.empty())
        return found;
    for (const image::Region &region : d_.regions) {
        if (is_watchable(region))
            found.push_back({region.start, region.end});
    }
    return found;
}

void MemoryChanges::copy_early(const std::vector<pid_t> &others)
{
    const auto room = common_.stages.find(d_.proc.pid());
    const DeltaPlan::Base *base =
        common_.delta != nullptr ? common_.delta->base_of(d_.proc.pid()) : nullptr;
    if (base != nullptr && room != common_.stages.end())
        early_copy_ = EarlyCopy::of(d_.proc, d_.early.seen(), *base, room->second, others);
}

// Allocating takes time, so only as much as is likely to be needed. If more is needed, the kernel
// allocates it in the stop, or the process is copied.
void MemoryChanges::provide_stage()
{
    const auto room = common_.stages.find(d_.proc.pid());
    if (room == common_.stages.end())
        return;
    constexpr uint64_t least = 2 << 20;
    Stage &stage = room->second;
    const std::optional<uint64_t> uncopied = early_copy_.uncopied();
    const uint64_t likely = uncopied ? *uncopied + stage.used() / 4 + least : stage.room();
    static_cast<void>(stage.provide(likely));
}

std::unique_ptr<Tracker> MemoryChanges::begin_watching()
{
    is_watched_ = true;
    if (common_.delta == nullptr || !common_.delta->wanted())
        return nullptr;
    const char *audit = sys::own_variable("CRYO_AUDIT");
    unchanged_.audit = audit != nullptr && std::string_view(audit) == "1";
    const DeltaPlan::Base *base = common_.delta->base_of(d_.proc.pid());
    std::unique_ptr<Tracker> tracker = Tracker::probe(process_.agent(), d_.proc);
    const TrackerToken before = tracker->token();
    if (base != nullptr && is_set(before)) {
        if (before == base->watched.token) {
            unchanged_.since = base->pages;
            unsure_ = base->watched.unsure;
        } else if (before == base->previous_watched.token) {
            unchanged_.since = base->previous_pages;
            unsure_ = base->previous_watched.unsure;
        } else if (tracker->add(early_copy_)) {
            early_copy_.hold(d_.proc);
            unchanged_.since = early_copy_.is_since_previous() ? base->previous_pages : base->pages;
        }
    }
    TrackerToken token;
    const bool random = getrandom(token.data(), token.size(), 0) == ssize_t(token.size());
    if (!random || !tracker->arm(watchable(), d_.watched, unchanged_.since != nullptr, token)) {
        tracker->disarm();
        unchanged_.since.reset();
        return nullptr;
    }
    d_.watched.insert(d_.watched.end(), tracker->watched().begin(), tracker->watched().end());
    std::sort(d_.watched.begin(), d_.watched.end(),
              [](const Run &a, const Run &b) { return a.start < b.start; });
    if (unchanged_.audit && unchanged_.since)
        audited_early_ = parts_seen(*tracker, &PageMap::Written::copied);
    unchanged_.tracker = tracker->name();
    unchanged_.token = tracker->token();
    unchanged_.mark = tracker->mark();
    return tracker;
}

std::vector<Run> MemoryChanges::parts_seen(const Tracker &tracker,
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

// All pages are read, and the next image cannot find its changes from this one by tracking.
void MemoryChanges::stop_watching(Tracker &tracker)
{
    tracker.disarm();
    unchanged_.since.reset();
    unchanged_.tracker = hashing_name;
    unchanged_.token = tracker.token();
}

// The agent writes to its stack while it serves, so an audit here would report that.
void MemoryChanges::look_while_it_stands(Tracker &tracker)
{
    if (tracker.needs_copy())
        stop_watching(tracker);
    else
        look_for_changes(tracker);
    if (unchanged_.audit)
        unchanged_.since.reset();
}

void MemoryChanges::watch_frozen(std::unique_ptr<Tracker> tracker, Frozen &frozen)
{
    if (tracker->copied(frozen))
        unchanged_.tracker = tracker->name();
    else
        stop_watching(*tracker);
    leave_out_written(audited_early_);
    unchanged_.token = tracker->token();
    unchanged_.unsure = tracker->unsure();
    if (tracker->needs_copy())
        tracker_ = std::move(tracker);
    else
        look_for_changes(*tracker);
}

void MemoryChanges::forget_copy()
{
    if (tracker_)
        stop_watching(*std::exchange(tracker_, nullptr));
}

const Unchanged &MemoryChanges::found()
{
    if (tracker_)
        look_for_changes(*tracker_);
    return unchanged_;
}

// Removes what the agent has written since the tracker was armed.
void MemoryChanges::leave_out_written(std::vector<Run> &runs) const
{
    Result<PageMap> map = PageMap::open(d_.proc);
    std::vector<Run> all;
    for (const Run &run : runs) {
        const Result<std::vector<Run>> written =
            map ? map->written(run.start, run.end) : Result<std::vector<Run>>(map.error());
        if (written)
            all.insert(all.end(), written->begin(), written->end());
    }
    runs = without(runs, all);
}

Result<void> MemoryChanges::audit_early_copy(Frozen &frozen)
{
    const auto room = common_.stages.find(d_.proc.pid());
    if (audited_early_.empty() || room == common_.stages.end())
        return {};
    room->second.keep(audited_early_);
    std::array<char, image::kPageSize> early, now;
    for (const Run &run : audited_early_) {
        for (uint64_t at = run.start; at < run.end; at += now.size()) {
            if (Result<void> got = room->second.read(at, early); !got)
                return got;
            if (Result<void> got = frozen.read(at, now, false, -1); !got)
                return got;
            if (early != now)
                return Error(EILSEQ, fmt::format("page {:x}: was copied before the stop and "
                                                 "reported as unchanged since, but it has changed",
                                                 at));
        }
    }
    audited_pages_ = size_of(audited_early_) / image::kPageSize;
    return {};
}

void MemoryChanges::look_for_changes(Tracker &tracker)
{
    Result<std::vector<Run>> clean = tracker.clean();
    if (clean)
        unchanged_.runs = without(*clean, unsure_);
    else
        unchanged_.since.reset();
}

} // namespace cryo::capture
