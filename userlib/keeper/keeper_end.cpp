// SPDX-License-Identifier: Apache-2.0
// What a keeper does when the program has ended: the last image, too, comes to the second place.
#include "keeper/keeper.hpp"

#include "base/clock.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fmt/format.h>
#include <poll.h>
#include <utility>

namespace cryo::keeper {

namespace {

// A disk or a server that hangs does not keep the keeper for ever.
constexpr double most_after_end_s = 24 * 3600.0;

} // namespace

void Keeper::finish()
{
    if (metrics_)
        metrics_->remove(); // an age that grows for ever would be an alert for ever
    const bool is_saved = state_->get("pid", 0) == pid_; // at least once
    if (is_saved)
        remember();
    const bool is_under_way = flusher_ && flusher_->active();
    if (lacks_image_ && !is_under_way && is_saved)
        flush(); // it has failed before
    else if (lacks_image_ && is_under_way)
        announce_last();
    const Images images = second_state_ ? second_state_->images() : state_->sent();
    state_->give_back(settings_.made_directory);
    if (second_state_)
        second_state_->give_back(settings_.made_second);
    if (!flusher_ || !flusher_->active())
        return;
    // Let the copying end. Neither a reader of the program's errors nor a restart waits for it, as
    // standard error is closed and the locks are released.
    if (freopen("/dev/null", "w", stderr) == nullptr)
        return;
    const double until = monotonic_now() + most_after_end_s;
    const bool is_there = end_copying(until);
    if (!is_under_way || (is_there && !lacks_image_) || is_taken_over())
        return;
    begin_copying(images, {});
    if (flusher_->active())
        end_copying(until);
}

// As flush() does, which cannot begin yet: later nothing is written into the lists, which may be
// another keeper's by then.
void Keeper::announce_last()
{
    if (second_state_)
        announce_copies();
    const Result<std::string> newest = remote_ ? series_.newest() : std::string();
    if (!newest || newest->empty())
        return;
    if (const Result<std::vector<std::string>> needed = series_.needed(*newest); needed)
        announce_sent({needed->begin(), needed->end()});
    remember();
}

// Whether the program runs again: then its new keeper copies what it makes.
bool Keeper::is_taken_over() const
{
    const Result<Directory> directory = Directory::open(settings_.directory);
    return !directory || State::is_taken(*directory);
}

// As flushed() does. The lock has been given back: another keeper that has it by now keeps the
// list.
void Keeper::forget_sent(const std::set<std::string> &names)
{
    Result<State> state = State::take(settings_.directory, 0);
    if (!state)
        return;
    state_.emplace(std::move(*state));
    note_not_sent(names);
    state_->give_back(false);
}

bool Keeper::end_copying(double until)
{
    pollfd ended = {flusher_->fd(), POLLIN, 0};
    for (;;) {
        const double left = std::max(0.0, until - monotonic_now());
        const int got = poll(&ended, 1, static_cast<int>(left * 1e3));
        if (got > 0)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        flusher_->give_up();
        note(fmt::format("copying to {}: given up {:.0f} hours after the end of the program",
                         settings_.second, most_after_end_s / 3600));
        return false;
    }
    const std::set<std::string> copied = flusher_->copying();
    const Result<double> took = flusher_->end();
    if (!took && took.error().code() == EEXIST && remote_)
        forget_sent(copied);
    note(took ? fmt::format("{}: {} is complete", settings_.second, newest_there())
              : took.error().within("copying to " + settings_.second).text());
    return static_cast<bool>(took);
}

} // namespace cryo::keeper
