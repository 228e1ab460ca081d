// SPDX-License-Identifier: Apache-2.0
//
// The sockets of a stopped program with their properties. All are read before one is saved, because
// how to save a socket depends on its other end.
#pragma once

#include "base/result.hpp"
#include "image/records.hpp"
#include "look/socket_look.hpp"
#include "resources/saving.hpp"
#include "resources/socket/tcp_repair.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cryo::resources {

struct SeenSocket {
    size_t seen = 0; // index in Saving::seen()
    capture::SocketLook look;
    bool in_pair = false;  // its peer is in the checkpoint too and has no other peer
    bool contents = false; // its queued contents are saved
    bool peeked = false;   // `queue` is filled in
    Result<capture::SocketQueue> queue = capture::SocketQueue();
    // Indexes in Saving::seen(), for each entry of queue.passed.
    std::vector<std::vector<size_t>> passed;
    bool waits = false; // connected, not yet accepted, and can be saved so
    // Of a listening socket: those callers, by inode, the first to be accepted first; 0: it has
    // closed its end. And of each of the latter the addresses, as image::Waiting has them.
    std::vector<uint64_t> callers;
    std::string closed_callers;
    std::string why_no_callers;           // why those that wait at it cannot be saved
    std::optional<Result<TakenTcp>> kept; // a TCP connection to outside that is to be kept
};

using LookedAt = std::map<uint64_t, SeenSocket>; // by inode

// save_datagrams.cpp. Saves the senders of packets that are queued in a socket. Empty, or why the
// packets could not be sent again as they were.
std::string save_senders(Saving &saving, const LookedAt &sockets, const SeenSocket &socket,
                         const image::Socket &record, const std::string &cwd);
// save_connections.cpp. The peer that a TCP socket had whose connection has ended, in the format of
// bind(2); empty: the kernel does not tell.
std::string former_peer(int fd);
// save_udp.cpp. Whether it is connected by UDP from and to addresses that every machine has.
// Neither end knows of the other: who has the peer's address makes no difference.
bool is_on_loopback(const capture::SocketLook &look);
// Empty, or why the queued datagrams could not be sent again as they were.
std::string udp_problem(const LookedAt &sockets, const SeenSocket &socket);

} // namespace cryo::resources
