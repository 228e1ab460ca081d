// SPDX-License-Identifier: Apache-2.0
//
// The door of a process: the socket at which its agent listens, found and checked before anything
// in the program is disturbed.
//
//     Result<AgentDoor> door = AgentDoor::find(412);
//     if (!door)
//         return door.error();      // says why, and what would help
//     Result<Fd> connection = std::move(*door).enter();
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "look/proc.hpp"

#include <string>
#include <sys/types.h>
#include <utility>

namespace cryo::capture {

class AgentDoor
{
  public:
    // Where to connect, after checking that it is allowed. The checks take long, so they are done
    // for all processes before the first is disturbed.
    static Result<AgentDoor> find(pid_t pid);
    pid_t pid() const { return pid_; }
    // Connects; from now on the program is interrupted.
    Result<Fd> enter() &&;

    // The checkpoint signal of a process.
    static int signal_of(const Proc &proc);
    // How many filters of system calls its surroundings have put on it, as its agent tells; 0:
    // none, or it is not known that they let pass what Cryo does in a program.
    static unsigned filters_of(const Proc &proc);
    // Explains why its agent does not answer, as far as /proc shows. `takes`: what deafness.hpp has
    // found.
    static Error silent(const Proc &proc, bool takes = false);
    // The name of a process, from which its turn's address is derived (turn.hpp).
    static Result<std::string> address_of(const Proc &proc);

  private:
    AgentDoor(pid_t pid, Fd socket, std::string path)
        : pid_(pid), socket_(std::move(socket)), path_(std::move(path))
    {}

    pid_t pid_;
    Fd socket_;
    std::string path_; // empty: nobody listens
};

} // namespace cryo::capture
