// SPDX-License-Identifier: Apache-2.0
//
// A request that is refused for something that passes by itself within milliseconds, such as a
// connection that nobody has accepted yet, is tried again. In between the program goes on.
//
//     for (Tries tries(options, deadline);; tries.pause()) {
//         Result<Outcome> done = once(obstacles);
//         if (done || !tries.may_pass(obstacles))
//             return done ? done : tries.told(done.error());
//     }
#pragma once

#include "base/result.hpp"
#include "capture/checkpoint.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace cryo::capture {

// What was in the way of one try.
struct Obstacles {
    bool may_pass = false;
    // It would, but the program must not be asked once more: why.
    std::string_view but;
    std::set<std::string> things; // that are there as long as they are in the way
    uint64_t stood_ns = 0;        // that long the program stood still
};

class Tries
{
  public:
    // `deadline`: on the monotonic clock; 0: none.
    Tries(const CheckpointOptions &options, uint64_t deadline);

    // After a try that was refused: whether there should be another one.
    bool may_pass(const Obstacles &obstacles);
    // After one that failed for its own reasons: there is another one, which does not count.
    void once_more() { pause_ns_ = 0; }
    // Until the next one, while the program runs.
    void pause() const;
    uint64_t count() const { return count_; }
    // How often it was tried, if that was more than once.
    Error told(const Error &error) const;

  private:
    uint64_t begun_, end_;
    uint64_t count_ = 1;
    uint64_t pause_ns_ = 0;
    std::string_view but_;
    std::map<std::string, uint64_t> since_; // the things that were in the way last time
};

} // namespace cryo::capture
