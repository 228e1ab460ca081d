// SPDX-License-Identifier: Apache-2.0
//
// The other end of a connection, as /proc/PID/fd of a process that has it names it.
//
//     Result<std::string> link = link_of_peer(look); // "socket:[4711]"
#pragma once

#include "base/result.hpp"
#include "look/socket_look.hpp"

#include <string>

namespace cryo::capture {

// Empty: no socket here has it, or the kernel does not tell of such sockets which one. An error:
// the kernel was asked, and has not answered.
Result<std::string> link_of_peer(const SocketLook &look);

} // namespace cryo::capture
