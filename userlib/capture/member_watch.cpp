// SPDX-License-Identifier: Apache-2.0
// What of a member's memory is known not to have changed since an earlier image. Nothing that goes
// wrong here is an error: then all pages are read.
#include "capture/member.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <sys/random.h>

namespace cryo::capture {

namespace {

bool is_set(const TrackerToken &token)
{
    return token != TrackerToken{};
}

// Only memory that nobody can write to but by its own page tables.
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

std::vector<Run> Member::watchable() const
{
    std::vector<Run> found;
    // What lives in the process besides does not stand still.
    if (!d_.left_out.empty())
        return found;
    for (const image::Region &region : d_.regions) {
        if (is_watchable(region))
            found.push_back({region.start, region.end});
    }
    return found;
}

// Null: no more than hashing.
std::unique_ptr<Tracker> Member::begin_watching()
{
    is_watched_ = true;
    if (common_.delta == nullptr || !common_.delta->wanted())
        return nullptr;
    const char *audit = getenv("CRYO_AUDIT");
    unchanged_.audit = audit != nullptr && std::string_view(audit) == "1";
    const DeltaPlan::Base *base = common_.delta->base_of(relation_.pid);
    std::unique_ptr<Tracker> tracker = Tracker::probe(*session_, d_.proc);
    const TrackerToken before = tracker->token();
    if (base != nullptr && is_set(before)) {
        if (before == base->watched.token) {
            unchanged_.since = base->pages;
            unsure_ = base->watched.unsure;
        } else if (before == base->previous_watched.token) {
            unchanged_.since = base->previous_pages;
            unsure_ = base->previous_watched.unsure;
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
    unchanged_.tracker = tracker->name();
    unchanged_.token = tracker->token();
    return tracker;
}

std::string Member::about_changes() const
{
    if (!delta_)
        return {};
    std::string text = fmt::format("process {}: changed pages found by {}, {} pages not read",
                                   relation_.pid, unchanged_.tracker, delta_->left());
    if (unchanged_.audit)
        text += fmt::format("; {} of them audited", delta_->audited());
    if (is_staged())
        text += fmt::format("; {} copied in the stop", staged_pages_);
    return text;
}

// All pages are read, and the image will be nobody's to find changes since.
void Member::stop_watching(Tracker &tracker)
{
    tracker.disarm();
    unchanged_.since.reset();
    unchanged_.token = tracker.token();
}

void Member::watch_frozen(std::unique_ptr<Tracker> tracker)
{
    if (!tracker->copied(Proc(frozen_->pid())))
        stop_watching(*tracker);
    unchanged_.token = tracker->token();
    unchanged_.unsure = tracker->unsure();
    if (tracker->needs_copy())
        tracker_ = std::move(tracker);
    else
        look_for_changes(*tracker);
}

void Member::use_changes()
{
    if (tracker_)
        look_for_changes(*tracker_);
    if (delta_)
        delta_->use(unchanged_);
}

void Member::look_for_changes(Tracker &tracker)
{
    Result<std::vector<Run>> clean = tracker.clean();
    if (clean)
        unchanged_.runs = without(*clean, unsure_);
    else
        unchanged_.since.reset();
}

} // namespace cryo::capture
