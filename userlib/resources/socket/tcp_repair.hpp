// SPDX-License-Identifier: Apache-2.0
//
// A TCP connection that is open, or is being opened or closed, taken out of its socket and put into
// another one (TCP_REPAIR).
//
//     Result<TakenTcp> taken = take_tcp(fd); // fd goes on as before
//     silence_tcp(fd, taken->position);      // now it may be closed: the peer hears nothing
//     Result<Fd> made = put_tcp(saved, record, received, sent);
//     start_tcp(made->get(), saved, record, sent_at_start(record, sent));
//
// The caller needs CAP_NET_ADMIN over the network namespace. Meanwhile the connection's packets are
// held (packet_hold.hpp): the kernel goes on receiving for a socket under repair. What put_tcp()
// has to tell the socket in its peer's name comes through nevertheless (peer_end.hpp).
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
    uint32_t shutdown = 0;        // by the program: 1 reading, where that is known, 2 writing
    std::string received;         // unread
    std::string sent;             // not acknowledged; the last `record.unsent` were never sent
};

// ENOTSUP: a restart could not make it again; EPERM: the privilege is missing.
Result<TakenTcp> take_tcp(int fd);

// Leaves the socket under repair: what is written to it goes nowhere, and its end tells the peer
// nothing. EAGAIN: something has arrived since it was taken.
Result<void> silence_tcp(int fd, const TcpPosition &taken);

// A connected socket, still under repair, with the ends that were sent. EADDRINUSE: another socket
// has this connection; ENOTSUP, EPERM, EADDRNOTAVAIL: its peer's end cannot be told to it.
Result<Fd> put_tcp(const image::Socket &saved, const image::KeptConnection &kept,
                   std::string_view received, std::string_view sent);
// What it is to send when it goes on.
std::string_view sent_at_start(const image::KeptConnection &kept, std::string_view sent);
// Lets it go on, with what was never sent, and shut down as it was. Fails only for want of memory;
// one that is being opened also where its peer has become out of reach.
Result<void> start_tcp(int fd, const image::Socket &saved, const image::KeptConnection &kept,
                       std::string_view unsent);

} // namespace cryo::resources
