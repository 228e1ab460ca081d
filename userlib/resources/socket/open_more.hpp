// SPDX-License-Identifier: Apache-2.0
//
// Rare properties of sockets: netlink groups, filters, an interface, congestion control; and
// whether this user may open such sockets.
//
//     Result<void> may = may_open_sockets(opening); // before anything is made
//     ...
//     Result<void> done = filter_filled(opening);   // when all are filled
#pragma once

#include "base/result.hpp"
#include "resources/opening.hpp"

#include <sys/socket.h>

namespace cryo::resources {

// Whether this user may open such sockets.
Result<void> may_open_sockets(const Opening &opening);
// Sockets in which something waits, or that are connected first, get their filters at the end;
// all others before anything can reach them.
Result<void> filter_first(const Opening &opening, int fd, const image::Socket &saved);
Result<void> filter_filled(const Opening &opening);
// A raw socket gets packets from its first moment on: those that came before it had its addresses
// are dropped, and then it gets its filter.
Result<void> start_raw(const Opening &opening, int fd, const image::Socket &saved);
// Puts the interface into the address of a packet socket.
Result<void> find_interface(const Opening &opening, const image::Socket &saved,
                            sockaddr_storage &address);
// A packet socket joins the group that shares packets (PACKET_FANOUT) as soon as it is bound.
Result<void> share_packets(int fd, const image::Socket &saved);
// Another congestion control of TCP is about speed: where it cannot be had, that is said.
void choose_congestion(Opening &opening, int fd, const image::Socket &saved);
Result<void> join_groups(const Opening &opening, int fd, const image::Socket &saved);

} // namespace cryo::resources
