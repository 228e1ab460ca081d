// SPDX-License-Identifier: Apache-2.0
//
// TCP connections that have arrived at a listening socket, and that no process has accepted yet. No
// descriptor refers to their ends there: the kernel shows these among all sockets of the port.
//
//     Result<UnacceptedQueue> queue = unaccepted_at(look);
//     if (queue && queue->ordered && queue->all.size() == look.waiting)
//         for (const Unaccepted &one : queue->all) ... // the first to be accepted first
#pragma once

#include "base/result.hpp"
#include "look/internet_address.hpp"
#include "look/socket_look.hpp"

#include <cstdint>
#include <vector>

namespace cryo::capture {

struct Unaccepted {
    InternetAddress local, peer; // of the end that waits to be accepted
    bool ended = false;          // its caller sends nothing more
    uint32_t unread = 0;         // bytes that wait in it
    uint32_t age_ms = 0;         // since it came, or since something came last
};

struct UnacceptedQueue {
    std::vector<Unaccepted> all;
    bool ordered = false; // they came at moments that the kernel tells apart
};

// Of this port and family, also if they wait at another socket that shares the port.
Result<UnacceptedQueue> unaccepted_at(const SocketLook &listener);
// Whether its caller has closed its end: surely, as both are on the loopback interface.
Result<bool> is_left_here(const Unaccepted &one, int family);

} // namespace cryo::capture
