// SPDX-License-Identifier: Apache-2.0
// Freezes a member: by which method, and from where its memory is read afterwards.
#include "capture/member.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <utility>

namespace cryo::capture {

namespace {

// The kernel has no resources for another process, or a limit forbids it.
bool is_refused(const Error &error)
{
    return error.code() == EAGAIN || error.code() == ENOMEM;
}

} // namespace

// An estimate that does not look at each mapping.
uint64_t Member::own_pages() const
{
    const Result<std::string> text = d_.proc.read("statm");
    std::string_view rest = text ? *text : std::string_view();
    take_number(rest); // total program size
    const uint64_t resident = take_number(rest), shared = take_number(rest);
    return resident - std::min(resident, shared);
}

Result<std::unique_ptr<Frozen>> Member::served(Result<PageSource> source) const
{
    if (!source)
        return source.error();
    source->tell(common_.moved);
    source->set_deadline(common_.deadline);
    return Served::open(std::move(*source));
}

// The agent writes to its stack while it serves, so an audit here would report that.
void Member::look_while_it_stands(Tracker &tracker)
{
    if (tracker.needs_copy())
        stop_watching(tracker);
    else
        look_for_changes(tracker);
    if (unchanged_.audit)
        unchanged_.since.reset();
}

void Member::watch_itself()
{
    if (is_watched_)
        return;
    if (const std::unique_ptr<Tracker> tracker = begin_watching(); tracker)
        look_while_it_stands(*tracker);
}

Result<void> Member::freeze_itself(int device)
{
    Result<std::unique_ptr<Frozen>> frozen = served(session_->memory().serve(device));
    if (!frozen)
        return frozen.error();
    frozen_ = std::move(*frozen);
    method_ = Method::stop;
    return {};
}

Result<void> Member::begin_freezing(Snapshot wanted, bool alone, int device)
{
    armed_ = begin_watching();
    const bool may_stage = armed_ && !armed_->needs_copy() && wanted != Snapshot::fork;
    if (may_stage && stage(*armed_, wanted == Snapshot::staged))
        return {};
    if (costs_.fork == Costs::cannot)
        costs_ = estimate({.pages = own_pages(), .huge = d_.huge_pages()});
    method_ = Method::fork;
    if (wanted == Snapshot::automatic && costs_.best() == Method::staged)
        why_ = ", because what has changed could not be copied as a whole";
    if (alone && wanted == Snapshot::automatic && costs_.best() == Method::stop)
        method_ = Method::stop;
    return method_ == Method::fork ? session_->memory().ask_to_fork(device) : Result<void>();
}

Result<Method> Member::await_frozen(Snapshot wanted)
{
    std::unique_ptr<Tracker> tracker = std::move(armed_);
    if (method_ == Method::fork) {
        Result<std::unique_ptr<Frozen>> frozen = served(session_->memory().forked());
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
        look_while_it_stands(*tracker);
    else if (tracker && method_ == Method::fork)
        watch_frozen(std::move(tracker));
    return method_;
}

// Pages known to be unchanged stay so, because the program is stopped.
void Member::thaw()
{
    frozen_.reset();
    if (tracker_) // it knows the changes from the copy alone
        stop_watching(*std::exchange(tracker_, nullptr));
    if (method_ != Method::stop)
        why_ = ", because another process of the tree is";
    method_ = Method::stop;
    staged_pages_ = 0;
    staged_unseen_ = false;
}

std::string Member::about_method() const
{
    const std::string_view how = method_ == Method::fork     ? "frozen by a copy"
                                 : method_ == Method::staged ? "what has changed copied in the stop"
                                 : is_placed_ ? "copied into the image while it stood still"
                                              : "read while it stood still";
    const std::string costs = costs_.fork == Costs::cannot ? std::string() : "; " + costs_.text();
    return fmt::format("process {}: {}{}{}", relation_.pid, how, why_, costs);
}

} // namespace cryo::capture
