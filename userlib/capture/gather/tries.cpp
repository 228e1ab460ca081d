// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/tries.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <thread>

namespace cryo::capture {

namespace {

constexpr uint64_t ms = 1'000'000;
// The program is stopped for a third of the time at most, but for the last try.
constexpr uint64_t runs_for_stop = 2;
constexpr uint64_t first_pause_ns = 2 * ms, longest_pause_ns = 20 * ms;
// An obstacle that is still there when the program has run for so long is no short-lived
// connection: report it without retrying. While the program stands still for a try, nothing can go.
constexpr uint64_t short_ns = 250 * ms;

} // namespace

// On a slow machine a try may take most of the time; obstacles pass while the program runs.
Tries::Tries(const CheckpointOptions &options, uint64_t deadline, uint64_t (*clock)())
    : clock_(clock), begun_(clock()), deadline_(deadline), retry_ns_(1000 * ms * options.retry_s)
{
    ends_by_deadline_ = deadline != 0 && deadline <= begun_ + retry_ns_;
    if (options.in_callback)
        retry_ns_ = 0; // the other members of its round are waiting for it
}

bool Tries::may_pass(const Obstacles &obstacles)
{
    but_ = {};
    time_is_up_ = false;
    if (!obstacles.may_pass)
        return false;
    const uint64_t now = clock_();
    stood_ns_ += obstacles.stood_ns;
    const uint64_t ran = now - begun_ - std::min(stood_ns_, now - begun_);
    // Much more than the pause is a machine that stood still, and the program with it.
    counted_ns_ += std::min(ran - std::min(ran_ns_, ran), pause_ns_ + longest_pause_ns);
    ran_ns_ = ran;
    std::map<std::string, uint64_t> still;
    for (const std::string &thing : obstacles.things) {
        const auto known = since_.find(thing);
        still[thing] = known != since_.end() ? known->second : counted_ns_;
        if (counted_ns_ - still[thing] > short_ns)
            return false;
    }
    since_ = std::move(still);
    // Varying pauses, so that they do not coincide with something periodic in the program.
    pause_ns_ = std::max(std::min(first_pause_ns + count_ * ms / 2, longest_pause_ns),
                         obstacles.stood_ns * runs_for_stop);
    // A long stop must not use up the time for further tries by the pause that it asks for.
    if (ran < retry_ns_)
        pause_ns_ = std::min(pause_ns_, retry_ns_ - ran);
    time_is_up_ = ran >= retry_ns_ || (deadline_ != 0 && now + pause_ns_ >= deadline_);
    if (time_is_up_)
        return false;
    if (!obstacles.but.empty()) {
        but_ = obstacles.but;
        return false;
    }
    count_++;
    return true;
}

void Tries::pause() const
{
    std::this_thread::sleep_for(std::chrono::nanoseconds(pause_ns_));
}

Error Tries::told(const Error &error) const
{
    if (!but_.empty())
        return error.with_remark(fmt::format(
            "the obstacle may pass by itself, but the checkpoint was not tried again: {}", but_));
    if (count_ == 1)
        return error;
    // A longer --retry would not wait longer for an obstacle that has already stayed for too long.
    const char *why = "";
    if (time_is_up_)
        why = ends_by_deadline_
                  ? ", because such obstacles may pass by themselves; --time allows no more"
                  : ", because such obstacles may pass by themselves; --retry=SECONDS tries for "
                    "longer";
    return error.with_remark(fmt::format("tried {} times over {:.1f} s{}", count_,
                                         static_cast<double>(clock_() - begun_) / 1e9, why));
}

} // namespace cryo::capture
