// SPDX-License-Identifier: Apache-2.0
//
// A turn is the right to save a process. Overlapping checkpoints are serialized: each takes the
// turn of every process before it asks that process for anything. A turn is an abstract UNIX
// address beside that of the process's agent, which only one socket can be bound to; the kernel
// releases it when its holder dies, and all waiters notice. Any process can bind such an address:
// if a stranger has, there is no turn, and only the agent, which answers one request at a time,
// serializes the checkpoints.
//
//     Result<Turn> turn = Turn::take("cryo.pid:[4026531836].412", word);
//     if (turn && !*turn)
//         turn->holder();           // has it; turn->fd() is closed when that process ends
//
// Checkpoints whose callbacks forward them to each other's processes would deadlock. So a waiter
// that holds other turns says so, and which kind of checkpoint it is; then the two are merged
// (gather/meeting.hpp). If they cannot be merged, or form a ring, a waiter steps back if the
// holder's process id is smaller than its own.
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
    // `word`: the message sent to the holder; may be empty.
    static Result<Turn> take(std::string_view agent, std::span<const char> word);
    // Takes over a turn from another checkpoint.
    static Result<Turn> adopt(Fd socket);

    explicit operator bool() const { return holder_ == 0; } // we hold it, or there is none
    pid_t holder() const { return holder_; }
    uid_t holder_uid() const { return holder_uid_; } // −1: no valid holder
    int fd() const { return socket_.get(); }

    struct Waiter {
        Fd connection;
        pid_t pid = 0;
        uid_t uid = 0;
        uint64_t since = 0;   // when examined last, on the monotonic clock; 0: not yet
        bool in_need = false; // holds other turns and cannot be merged with us
        // Only a waiter of our own user is listened to. A process of another user may be an
        // attacker, and its messages do not matter: checkpoints of our user wait only for turns
        // that root or the same user holds.
        bool is_ours() const;
    };
    // The waiters for a turn that we hold, up to a limit. Those without a connection are dropped.
    std::vector<Waiter> &waiters();
    // Adds the descriptors on which waiters announce themselves or send.
    void add_to(std::vector<pollfd> &look) const;

  private:
    Fd socket_; // bound and listening; or connected to the holder's
    std::vector<Waiter> waiting_;
    pid_t holder_ = 0;
    uid_t holder_uid_ = static_cast<uid_t>(-1);
};

} // namespace cryo::capture
