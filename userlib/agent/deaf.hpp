// SPDX-License-Identifier: Apache-2.0
//
// Guards a few instructions of a program thread during which no checkpoint may stop it:
//
//     const Deaf deaf;
//     return remember(real_call());
//
// The checkpoint signal stays blocked until the end of the scope. If the thread does not return
// because it executes another program, the signal remains blocked: see interposed_exec.cpp. The
// leader of a checkpoint does not send glibc's signal either (library_threads.cpp): either it sees
// that the scope is active, or the constructor waits until that signal was sent and delivered.
#pragma once

#include "agent/agent.hpp"
#include "sys/raw.hpp"

#include <csignal>

namespace cryo::agent {

class Deaf
{
  public:
    // Not in a child of vfork: it shares this memory, but no checkpoint is requested of it.
    Deaf() : is_(state.signal != 0 && sys::call(SYS_getpid) == state.pid)
    {
        if (!is_)
            return;
        const uint64_t only = uint64_t(1) << (state.signal - 1);
        sys::call(SYS_rt_sigprocmask, SIG_BLOCK, &only, &before_, sizeof(only));
        // Not earlier: a thread that a checkpoint has just stopped must not count as being in here.
        state.deaf.fetch_add(1);
        while (state.knocking.load() != 0)
            sys::call(SYS_sched_yield);
        sys::call(SYS_sched_yield); // a signal that was sent is delivered here at the latest
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
