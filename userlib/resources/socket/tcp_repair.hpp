// SPDX-License-Identifier: Apache-2.0
//
// A TCP connection that is open, taken out of its socket and put into another one (TCP_REPAIR).
//
//     Result<TakenTcp> taken = take_tcp(fd); // fd goes on as before
//     silence_tcp(fd, taken->position);      // now it may be closed: the peer hears nothing
//     Result<Fd> made = put_tcp(saved, record, received, sent);
//     start_tcp(made->get(), saved, record, unsent);
//
// The caller needs CAP_NET_ADMIN over the network namespace. Meanwhile the connection's packets are
// held (packet_hold.hpp): the kernel goes on receiving for a socket under repair.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/records.hpp"

#include <string>
#include <string_view>

namespace cryo::resources {

// How far a connection has come, the ends of both directions included.
struct TcpPosition {
    uint32_t received = 0, sent = 0;
    int state = 0; // TCP_ESTABLISHED, …
};

struct TakenTcp {
    TcpPosition position;
    image::KeptConnection record; // all but `socket`, `held` and `object`
    uint32_t shutdown = 0;        // by the program: 1 reading, 2 writing
    std::string received;         // unread
    std::string sent;             // not acknowledged; the last `record.unsent` were never sent
};

// ENOTSUP: a restart could not make it again; EPERM: the privilege is missing.
Result<TakenTcp> take_tcp(int fd);

// Leaves the socket under repair: what is written to it goes nowhere, and its end tells the peer
// nothing. EAGAIN: something has arrived since it was taken.
Result<void> silence_tcp(int fd, const TcpPosition &taken);
// The opposite; `reuse`: the program's SO_REUSEADDR, which repair changes.
void end_repair(int fd, int reuse);
int reuse_of(int fd);

// A connected socket, still under repair, with the end that was sent. EADDRINUSE: another socket
// has this connection.
Result<Fd> put_tcp(const image::Socket &saved, const image::KeptConnection &kept,
                   std::string_view received, std::string_view sent);
// Lets it go on, with what was never sent, and shut down as it was. Fails only for want of memory.
Result<void> start_tcp(int fd, const image::Socket &saved, const image::KeptConnection &kept,
                       std::string_view unsent);

} // namespace cryo::resources
