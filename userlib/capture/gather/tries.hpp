// SPDX-License-Identifier: Apache-2.0
//
// Retries a request that is refused for something that passes by itself within milliseconds, such
// as a connection not yet accepted. The program runs between the tries.
//
//     for (Tries tries(options, deadline);; tries.pause()) {
//         Result<Outcome> done = once(obstacles);
//         if (done || !tries.may_pass(obstacles))
//             return done ? done : tries.told(done.error());
//     }
#pragma once

#include "base/result.hpp"
#include "capture/member/member.hpp"
#include "capture/process/options.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace cryo::capture {

// The obstacles to one try.
struct Obstacles {
    bool may_pass = false;
    // Why the program must not be asked again although the obstacle may pass; empty: it may.
    std::string_view but;
    std::set<std::string> things; // obstacles as long as they exist
    uint64_t stood_ns = 0;        // how long the program was stopped
};

class Tries
{
  public:
    // `deadline`: on the monotonic clock; 0: none. `clock` reads it.
    Tries(const CheckpointOptions &options, uint64_t deadline, uint64_t (*clock)() = now_ns);

    // After a refused try: whether to try again.
    bool may_pass(const Obstacles &obstacles);
    // After a try that failed for our own reasons: repeats it at once, without counting it.
    void once_more() { pause_ns_ = 0; }
    // Waits for the next try, while the program runs.
    void pause() const;
    uint64_t pause_ns() const { return pause_ns_; }
    uint64_t count() const { return count_; }
    // Adds the number of tries to the error, if it was more than one.
    Error told(const Error &error) const;

  private:
    uint64_t (*clock_)();
    uint64_t begun_, deadline_;
    uint64_t retry_ns_;       // of the program's running, in which it is tried again
    uint64_t stood_ns_ = 0;   // in all tries
    uint64_t ran_ns_ = 0;     // until the last try
    uint64_t counted_ns_ = 0; // of that, for obstacles
    uint64_t count_ = 1;
    uint64_t pause_ns_ = 0;
    std::string_view but_;
    bool ends_by_deadline_ = false; // before retry_s is over
    bool time_is_up_ = false;       // only that has ended the tries
    // The obstacles of the last try: what had been counted when each was first seen.
    std::map<std::string, uint64_t> since_;
};

} // namespace cryo::capture
