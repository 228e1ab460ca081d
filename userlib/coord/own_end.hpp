// SPDX-License-Identifier: Apache-2.0
//
// An end of this process that the kernel brings about, by SIGKILL at a time of CLOCK_BOOTTIME. The
// process need not run for it: it may be stopped, or the machine may have been asleep when the time
// came. A child by fork() does not have it. Nothing takes it back: it also comes while the process
// is about to end by itself, however long that takes.
//
//     Result<OwnEnd> end = OwnEnd::make();
//     Result<void> set = end->at(lease.end());      // again and again, always later
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <ctime>

namespace cryo::coord {

class OwnEnd
{
  public:
    static Result<OwnEnd> make();

    Result<void> at(int64_t boottime_ns);

  private:
    explicit OwnEnd(timer_t timer) : timer_(timer) {}

    timer_t timer_;
};

} // namespace cryo::coord
