// SPDX-License-Identifier: Apache-2.0
//
// A wait whose time that is left the kernel does not tell. Whoever waits gives the call a place of
// this kind, and the handler of a checkpoint finds it by the call's own argument and writes into it
// how much time is left:
//
//     TimedWait wait(*limit);
//     return real_semtimedop(set, operations, count, wait.limit());
//
// It lies in the caller's frame, so that nothing has to be undone when a handler of the program's
// jumps out of the wait.
#pragma once

#include <cstdint>
#include <time.h>

namespace cryo::agent {

class TimedWait
{
  public:
    explicit TimedWait(const timespec &limit) : self_(this), left_(limit)
    {
        timespec time = {};
        clock_gettime(CLOCK_MONOTONIC, &time);
        end_ = ns(time) + ns(limit);
        // Who reads these is not to be seen by the compiler.
        asm volatile("" : : "r"(this) : "memory");
    }
    TimedWait(const TimedWait &) = delete;
    TimedWait &operator=(const TimedWait &) = delete;

    timespec *limit() { return &left_; }

    // What the kernel would refuse, and what it does not wait for, is left to the kernel. A hundred
    // years are longer than any program is away.
    static bool takes(const timespec *limit)
    {
        constexpr time_t longest = 3'200'000'000;
        return limit != nullptr && limit->tv_sec >= 0 && limit->tv_sec < longest &&
               limit->tv_nsec >= 0 && limit->tv_nsec < second &&
               (limit->tv_sec != 0 || limit->tv_nsec != 0);
    }

    // The wait whose limit this is, if it is one, for a call that was entered with this stack
    // pointer: what lies between the two can be read.
    static TimedWait *of(int64_t limit, int64_t stack_pointer)
    {
        constexpr int64_t most = 4096;
        const int64_t start = limit - static_cast<int64_t>(sizeof(TimedWait) - sizeof(timespec));
        if (start % 8 != 0 || start < stack_pointer || start > stack_pointer + most)
            return nullptr;
        auto *wait = reinterpret_cast<TimedWait *>(start);
        return wait->mark_ == known && wait->self_ == wait ? wait : nullptr;
    }

    // When the call was interrupted; and when it is entered again.
    void keep_left(int64_t now)
    {
        const int64_t left = end_ > now ? end_ - now : 0;
        left_ = {left / second, left % second};
    }
    void go_on(int64_t now) { end_ = now + ns(left_); }

  private:
    static constexpr int64_t second = 1'000'000'000;
    static constexpr uint64_t known = 0x74696177'6f797263;

    static int64_t ns(const timespec &time) { return time.tv_sec * second + time.tv_nsec; }

    const uint64_t mark_ = known;
    TimedWait *const self_;
    int64_t end_;
    timespec left_; // the last member: see of()
};

} // namespace cryo::agent
