// SPDX-License-Identifier: Apache-2.0
//
// Packet sockets (AF_PACKET): their interface and, from the kernel's diagnostics, what they share
// or have joined.
//
//     look_at_packet(fd, look, inode);
//     fmt::print("{} {}\n", look.interface, look.problem);
#pragma once

#include "look/socket_look.hpp"

namespace cryo::capture {

void look_at_packet(int fd, SocketLook &look, uint64_t inode);

} // namespace cryo::capture
