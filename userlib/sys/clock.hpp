// SPDX-License-Identifier: Apache-2.0
//
// The monotonic clock for code that may call nothing of the C library: signal handlers, and a
// program that is stopped. All other code uses base/clock.hpp.
//
//     const int64_t begun = sys::monotonic_ns();
//     ...
//     const int64_t took = sys::monotonic_ns() - begun;
#pragma once

#include "sys/raw.hpp"

#include <cstdint>
#include <time.h>

namespace cryo::sys {

inline int64_t monotonic_ns()
{
    timespec now = {};
    call(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return now.tv_sec * int64_t(1'000'000'000) + now.tv_nsec;
}

} // namespace cryo::sys
