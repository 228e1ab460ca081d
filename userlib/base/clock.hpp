// SPDX-License-Identifier: Apache-2.0
//
// Clocks of the kernel, in nanoseconds. Code that may not call the C library uses sys/clock.hpp.
//
//     const uint64_t begun = now_ns();
//     ...
//     const uint64_t took = now_ns() - begun;
#pragma once

#include <cstdint>
#include <time.h>

namespace cryo {

// Always inline: interposed_syscall.cpp is compiled without vector registers, and the linker must
// not replace its copy by another file's.
[[gnu::always_inline]] inline int64_t clock_ns(clockid_t clock)
{
    timespec now = {};
    clock_gettime(clock, &now);
    return now.tv_sec * int64_t(1'000'000'000) + now.tv_nsec;
}

// Of the monotonic clock.
inline uint64_t now_ns()
{
    return static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC));
}

} // namespace cryo
