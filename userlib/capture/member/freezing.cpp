// SPDX-License-Identifier: Apache-2.0
#include "capture/member/freezing.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>

namespace cryo::capture {

namespace {

// The kernel has no resources for another process, or a limit forbids it.
bool is_refused(const Error &error)
{
    return error.code() == EAGAIN || error.code() == ENOMEM;
}

} // namespace

bool fork_leaves_out(const image::Region &region)
{
    return (region.flags & (image::kRegionDontFork | image::kRegionWipeOnFork)) != 0;
}

bool is_frozen(const image::Region &region)
{
    return (region.flags & image::kRegionShared) == 0 && !fork_leaves_out(region);
}

Result<std::unique_ptr<Frozen>> open_served(Result<PageSource> source, const Common &common)
{
    if (!source)
        return source.error();
    source->tell(common.moved);
    source->set_deadline(common.deadline);
    return Served::open(std::move(*source));
}

bool Freezing::has_unforkable() const
{
    return std::any_of(d_.regions.begin(), d_.regions.end(), fork_leaves_out);
}

// A subreaper would see the copy among its children. Huge pages of hugetlb are scarce: the copy
// could need as many again, page by page as the program writes, or lose its memory.
bool Freezing::cannot_be_copied() const
{
    return d_.process.child_subreaper || d_.process.pid == 1 ||
           std::ranges::any_of(d_.regions, [](const image::Region &region) {
               return region.kind == image::RegionKind::hugetlb;
           });
}

void Freezing::watch_itself()
{
    if (changes_.is_watched())
        return;
    if (const std::unique_ptr<Tracker> tracker = changes_.begin_watching(); tracker)
        changes_.look_while_it_stands(*tracker);
}

Result<void> Freezing::freeze_itself(int device)
{
    Result<std::unique_ptr<Frozen>> frozen =
        open_served(process_.agent().memory().serve(device), common_);
    if (!frozen)
        return frozen.error();
    frozen_ = std::move(*frozen);
    method_ = Method::stop;
    return {};
}

Result<void> Freezing::begin(Snapshot wanted, bool alone, int device)
{
    armed_ = changes_.begin_watching();
    const bool may_stage = armed_ && !armed_->needs_copy() && wanted != Snapshot::fork;
    if (may_stage) {
        frozen_ = staging_.freeze(*armed_, wanted == Snapshot::staged);
        costs_ = staging_.costs();
    }
    if (frozen_) {
        method_ = Method::staged;
        return {};
    }
    if (costs_.fork == Costs::cannot)
        costs_ = estimate({.pages = private_pages(d_.proc), .huge = d_.huge_pages()});
    method_ = Method::fork;
    if (wanted == Snapshot::automatic && costs_.best() == Method::staged)
        why_ = ", because what has changed could not be copied as a whole";
    if (alone && wanted == Snapshot::automatic && costs_.best() == Method::stop)
        method_ = Method::stop;
    return method_ == Method::fork ? process_.agent().memory().ask_to_fork(device) : Result<void>();
}

Result<Method> Freezing::await(Snapshot wanted)
{
    std::unique_ptr<Tracker> tracker = std::move(armed_);
    if (method_ == Method::fork) {
        Result<std::unique_ptr<Frozen>> frozen =
            open_served(process_.agent().memory().forked(), common_);
        if (frozen) {
            frozen_ = std::move(*frozen);
        } else if (!is_refused(frozen.error())) {
            return frozen.error();
        } else if (wanted == Snapshot::fork) {
            return frozen.error().within("--snapshot=fork, and no copy can be made: without that "
                                         "option the program stands still while it is read");
        } else {
            method_ = Method::stop;
            why_ = ", because no copy could be made: " + frozen.error().text();
        }
    }
    if (tracker && method_ == Method::stop)
        changes_.look_while_it_stands(*tracker);
    else if (tracker && method_ == Method::fork)
        changes_.watch_frozen(std::move(tracker), *frozen_);
    return method_;
}

// Pages known to be unchanged stay so, because the program is stopped.
void Freezing::thaw()
{
    frozen_.reset();
    changes_.forget_copy();
    if (method_ != Method::stop)
        why_ = ", because another process of the tree is";
    method_ = Method::stop;
}

Result<bool> Freezing::early_look_held() const
{
    switch (method_) {
    case Method::fork:
        return d_.early.held(d_.proc, Proc(frozen_->pid()), d_.watched);
    case Method::staged:
        return staging_.is_unseen() ? d_.early.held_afterwards(d_.proc, d_.watched) : true;
    default:
        return d_.early.can_wait() ? d_.early.held_afterwards(d_.proc, d_.watched)
                                   : d_.early.held_in_stop(d_.proc, d_.watched);
    }
}

std::string Freezing::about(bool is_placed) const
{
    const std::string_view how = method_ == Method::fork     ? "frozen by a copy"
                                 : method_ == Method::staged ? "what has changed copied in the stop"
                                 : is_placed ? "copied into the image while it stood still"
                                             : "read while it stood still";
    const std::string costs = costs_.fork == Costs::cannot ? std::string() : "; " + costs_.text();
    return fmt::format("process {}: {}{}{}", d_.proc.pid(), how, why_, costs);
}

} // namespace cryo::capture
