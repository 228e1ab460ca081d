// SPDX-License-Identifier: Apache-2.0
//
// A few instructions of the program's thread in which no checkpoint may find it:
//
//     const Deaf deaf;
//     return remember(real_call());
//
// The checkpoint signal waits until its end. Where the thread has not come back by then because it
// executes another program, the signal stays blocked: see interposed_exec.cpp. Nor does the leader
// of a checkpoint send the C library's signal (library_threads.cpp): either it sees us, or we wait
// here until it has been sent, and delivered.
#pragma once

#include "agent/agent.hpp"
#include "sys/raw.hpp"

#include <csignal>

namespace cryo::agent {

class Deaf
{
  public:
    // Nobody asks a child of vfork, which shares our memory, for anything.
    Deaf() : is_(state.signal != 0 && sys::call(SYS_getpid) == state.pid)
    {
        if (!is_)
            return;
        const uint64_t only = uint64_t(1) << (state.signal - 1);
        sys::call(SYS_rt_sigprocmask, SIG_BLOCK, &only, &before_, sizeof(only));
        // Not earlier: one that has stopped must not seem to be in here.
        state.deaf.fetch_add(1);
        while (state.knocking.load() != 0)
            sys::call(SYS_sched_yield);
        sys::call(SYS_sched_yield); // at the latest here, what has been sent is delivered
    }
    ~Deaf()
    {
        if (!is_)
            return;
        state.deaf.fetch_sub(1);
        sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof(before_));
    }
    Deaf(const Deaf &) = delete;
    Deaf &operator=(const Deaf &) = delete;

  private:
    bool is_;
    uint64_t before_ = 0;
};

} // namespace cryo::agent
