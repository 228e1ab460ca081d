// SPDX-License-Identifier: Apache-2.0
//
// Words in shared memory by which the processes of a nursery report their progress to each other.
// System calls only: a new process shares its memory with threads that it does not have.
//
//     tell(births[number].pid, pid);
//     const int pid = await_word(births[other].pid); // or −errno
#pragma once

#include "sys/raw.hpp"

#include <atomic>
#include <cerrno>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

namespace cryo::restore {

// Waits until the word is no longer zero; its value, or −ETIMEDOUT.
inline int await_word(std::atomic<int> &word)
{
    constexpr int patience_s = 30; // for one process to be made
    const timespec limit = {patience_s, 0};
    for (;;) {
        const int value = word.load(std::memory_order_acquire);
        if (value != 0)
            return value;
        if (sys::call(SYS_futex, &word, FUTEX_WAIT, 0, &limit, 0, 0) == -ETIMEDOUT)
            return -ETIMEDOUT;
    }
}

inline void tell(std::atomic<int> &word, long value)
{
    word.store(static_cast<int>(value), std::memory_order_release);
    sys::call(SYS_futex, &word, FUTEX_WAKE, 0x7fffffff, 0, 0, 0);
}

} // namespace cryo::restore
