// SPDX-License-Identifier: Apache-2.0
//
// Whose turn it is to save a process. Two checkpoints that overlap come one after the other: each
// takes the turn of every process before it asks that process for anything. A turn is an abstract
// UNIX address beside that of the process's agent, which only one can be bound to; the kernel gives
// it back when its holder dies, and tells everybody who waits. Anybody may take such an address,
// too: where somebody else has, there are no turns, and checkpoints of one process come after each
// other only because its agent answers one at a time.
//
//     Result<Turn> turn = Turn::take("cryo.pid:[4026531836].412", word);
//     if (turn && !*turn)
//         turn->holder();           // has it; turn->fd() is closed when it has ended
//
// Checkpoints whose callbacks forward them to each other's processes would wait for each other for
// ever. So whoever waits, holding others, says that, and what kind of checkpoint it is: then they
// become one (meeting.hpp). Of two that cannot, or a ring of them, one that waits for a smaller
// process id steps back.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <poll.h>
#include <span>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

class Turn
{
  public:
    // `agent`: the address of the process's agent.
    // `word`: what is said to whoever has it; may be empty.
    static Result<Turn> take(std::string_view agent, std::span<const char> word);
    // One that is given to us.
    static Result<Turn> adopt(Fd socket);

    explicit operator bool() const { return holder_ == 0; } // it is ours
    pid_t holder() const { return holder_; }
    uid_t holder_uid() const { return holder_uid_; } // −1: may not have it
    int fd() const { return socket_.get(); }

    struct Waiter {
        Fd connection;
        pid_t pid = 0;
        uid_t uid = 0;
        uint64_t since = 0;   // when it was looked at first, on the monotonic clock
        bool in_need = false; // holds others, and cannot become one with us
    };
    // Of one that is ours: who waits for it. Those without a connection are forgotten.
    std::vector<Waiter> &waiters();
    // What to wait at for news of them.
    void add_to(std::vector<pollfd> &look) const;

  private:
    Fd socket_; // bound and listening; or connected to the one that is
    std::vector<Waiter> waiting_;
    pid_t holder_ = 0;
    uid_t holder_uid_ = static_cast<uid_t>(-1);
};

} // namespace cryo::capture
