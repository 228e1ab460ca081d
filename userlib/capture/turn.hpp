// SPDX-License-Identifier: Apache-2.0
//
// Whose turn it is to save a process. Two checkpoints that overlap come one after the other: each
// takes the turn of every process before it asks that process for anything. A turn is an abstract
// UNIX address beside that of the process's agent, which only one can be bound to; the kernel gives
// it back when its holder dies, and tells everybody who waits.
//
//     Result<Turn> turn = Turn::take("cryo.pid:[4026531836].412");
//     if (turn && !*turn)
//         turn->holder();           // has it; turn->await_change(deadline) waits for its end
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <string_view>
#include <sys/types.h>

namespace cryo::capture {

class Turn
{
  public:
    // `agent`: the address of the process's agent.
    static Result<Turn> take(std::string_view agent);

    explicit operator bool() const { return holder_ == 0; } // it is ours
    pid_t holder() const { return holder_; }
    // Until the other one has given it back. ETIME: the deadline is over.
    Result<void> await_change(uint64_t deadline_ns) const;
    int fd() const { return socket_.get(); }

  private:
    Fd socket_; // bound and listening; or connected to the one that is
    pid_t holder_ = 0;
};

} // namespace cryo::capture
