// SPDX-License-Identifier: Apache-2.0
//
// Sockets whose other end is the kernel or a whole network: netlink, ICMP, raw IP, UDP-Lite, packet
// sockets. And the filter that any socket may have.
//
//     look_at_filter(fd, look);
//     if (is_other(look))
//         look_at_other(fd, look, inode); // look.problem: what cannot be restored
#pragma once

#include "look/socket_look.hpp"

namespace cryo::capture {

bool is_other(const SocketLook &look);
void look_at_other(int fd, SocketLook &look, uint64_t inode);
void look_at_filter(int fd, SocketLook &look);

} // namespace cryo::capture
