// SPDX-License-Identifier: Apache-2.0
//
// What a socket has to do with multicasts.
#pragma once

namespace cryo::capture {

// Whether it has joined a group. The kernel does not list a socket's groups, but answers about
// each one, and lists those that interfaces listen to.
bool has_joined_group(int fd, int domain);

// Whether anything routes multicasts of IPv6 here, which takes a raw socket of ICMP.
bool is_multicast_router_here();

} // namespace cryo::capture
