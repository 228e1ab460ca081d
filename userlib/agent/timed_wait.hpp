// SPDX-License-Identifier: Apache-2.0
//
// A wait whose remaining time the kernel does not report. The caller passes the limit inside an
// object of this kind; the checkpoint's handler recognises it by the call's argument and writes the
// remaining time into it:
//
//     TimedWait wait(*limit);
//     return real_semtimedop(set, operations, count, wait.limit());
//
// It lies in the caller's frame, so that nothing has to be undone if one of the program's handlers
// leaves the wait by longjmp.
#pragma once

#include "base/clock.hpp"
#include "sys/newer_numbers.hpp"

#include <cstdint>
#include <time.h>

namespace cryo::agent {

using sys::epoll_pwait2_number;

class TimedWait
{
  public:
    explicit TimedWait(const timespec &limit) : self_(this), left_(limit)
    {
        end_ = clock_ns(CLOCK_MONOTONIC) + ns(limit);
        // The handler's reads are invisible to the compiler.
        asm volatile("" : : "r"(this) : "memory");
    }
    TimedWait(const TimedWait &) = delete;
    TimedWait &operator=(const TimedWait &) = delete;

    timespec *limit() { return &left_; }

    // Limits that the kernel would refuse or does not wait for are passed to it as they are. A
    // limit of a hundred years outlasts any checkpoint.
    static bool takes(const timespec *limit)
    {
        constexpr time_t longest = 3'200'000'000;
        return limit != nullptr && limit->tv_sec >= 0 && limit->tv_sec < longest &&
               limit->tv_nsec >= 0 && limit->tv_nsec < second &&
               (limit->tv_sec != 0 || limit->tv_nsec != 0);
    }

    // The TimedWait that holds this limit, if there is one, for a call that was entered with this
    // stack pointer: the memory between the two can be read.
    static TimedWait *of(int64_t limit, int64_t stack_pointer)
    {
        constexpr int64_t most = 4096;
        const int64_t start = limit - static_cast<int64_t>(sizeof(TimedWait) - sizeof(timespec));
        if (start % 8 != 0 || start < stack_pointer || start > stack_pointer + most)
            return nullptr;
        auto *wait = reinterpret_cast<TimedWait *>(start);
        return wait->mark_ == known && wait->self_ == wait ? wait : nullptr;
    }

    // Keeps the time left at the interruption; go_on() sets the end anew.
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
