// SPDX-License-Identifier: Apache-2.0
//
// Evidence that a process does not hear the checkpoint signal, so that it need not be waited for
// until the limit. That time has passed is none: a process may be stopped, in the kernel, or
// without a processor.
//
//     Deafness deafness(412);
//     ... every look_again_ms, while it has not answered:
//     if (deafness.look(now_ns()))
//         return AgentDoor::silent(Proc(412), deafness.reason());
#pragma once

#include "look/proc.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <sys/types.h>

namespace cryo::capture {

class Deafness
{
  public:
    enum class Reason { none, blocks, takes };

    explicit Deafness(pid_t pid) : proc_(pid) {}

    // True: at each look for the last two seconds it could have heard the signal, and did not.
    bool look(uint64_t now);
    // Whether the last look was one of those.
    bool seems_deaf() const { return reason_ != Reason::none; }
    // What the last look found.
    Reason reason() const { return reason_; }

  private:
    struct Threads;
    Reason reason_now(Threads &threads) const;
    bool has_no_callbacks() const;

    Proc proc_;
    int signal_ = 0;
    Reason reason_ = Reason::none;
    uint64_t since_ = 0;          // on the monotonic clock
    std::map<int, uint64_t> ran_; // by thread, when it was first seen to run: ticks in user mode
};

} // namespace cryo::capture
