// SPDX-License-Identifier: Apache-2.0
//
// The other end of a connection, as /proc/PID/fd of a process that has it names it.
//
//     const std::string link = link_of_peer(look); // "socket:[4711]"
#pragma once

#include "look/socket_look.hpp"

#include <string>

namespace cryo::capture {

// Empty: not known.
std::string link_of_peer(const SocketLook &look);

} // namespace cryo::capture
