// SPDX-License-Identifier: Apache-2.0
//
// Holds a thread in a ptrace stop, for what only a tracer may ask. If we die, the kernel releases
// the thread, which must be in a wait that such a stop does not disturb.
//
//     Result<HeldThread> held = HeldThread::hold(tid, "its pending signals may not be read");
#pragma once

#include "base/result.hpp"

#include <string_view>
#include <sys/types.h>

namespace cryo::capture {

class HeldThread
{
  public:
    // EPERM: this system restricts ptrace. `not_possible` says what cannot be done then.
    static Result<HeldThread> hold(pid_t tid, std::string_view not_possible);
    HeldThread(HeldThread &&other) noexcept;
    HeldThread(const HeldThread &) = delete;
    HeldThread &operator=(const HeldThread &) = delete;
    HeldThread &operator=(HeldThread &&) = delete;
    ~HeldThread();

  private:
    HeldThread(pid_t tid, long signal, bool ours) : tid_(tid), signal_(signal), ours_(ours) {}
    pid_t tid_;
    long signal_; // the signal it was about to receive
    bool ours_;   // we hold it already (stopped.cpp)
};

} // namespace cryo::capture
