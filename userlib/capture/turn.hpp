// SPDX-License-Identifier: Apache-2.0
//
// Whose turn it is to save a process. Two checkpoints that overlap come one after the other: each
// takes the turn of every process before it asks that process for anything. A turn is an abstract
// UNIX address beside that of the process's agent, which only one can be bound to; the kernel gives
// it back when its holder dies, and tells everybody who waits.
//
//     Result<Turn> turn = Turn::take("cryo.pid:[4026531836].412", holds_others);
//     if (turn && !*turn)
//         turn->holder();           // has it; turn->is_over(200) tells when it has ended
//
// Checkpoints whose callbacks forward them to each other's processes would wait for each other for
// ever. So whoever waits, holding others, says that; and of two such, or a ring of them, one that
// waits for a smaller process id steps back.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

class Turn
{
  public:
    // `agent`: the address of the process's agent.
    static Result<Turn> take(std::string_view agent, bool holds_others);

    explicit operator bool() const { return holder_ == 0; } // it is ours
    pid_t holder() const { return holder_; }
    // Whether the other one has given it back, at the latest in so many milliseconds.
    bool is_over(int milliseconds) const;
    // Of one that is ours: somebody who holds others waits for it.
    bool is_wanted_in_need();

  private:
    Fd socket_; // bound and listening; or connected to the one that is
    std::vector<Fd> waiting_;
    pid_t holder_ = 0;
};

} // namespace cryo::capture
