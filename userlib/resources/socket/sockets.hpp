// SPDX-License-Identifier: Apache-2.0
//
// Saves the sockets of a stopped program: their properties, the data queued in them, and the
// connections between them.
//
//     Sockets sockets(saving, {.close = true});
//     Result<void> done = sockets.look(); // adds the open files that only travel in messages
//     ... // these have their records
//     done = sockets.save();
#pragma once

#include "base/result.hpp"
#include "look/multicast.hpp"
#include "resources/saving.hpp"
#include "resources/socket/connection_hold.hpp"
#include "resources/socket/looked_at.hpp"
#include "resources/socket/socket_places.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cryo::resources {

// What becomes of connections to outside; without a choice they are refused.
struct ConnectionChoice {
    bool close = false;             // they come back as closed
    bool keep = false;              // TCP connections come back, with their peers
    ConnectionHold *hold = nullptr; // for that, if the program ends; else they go on with it
};

class Sockets
{
  public:
    Sockets(Saving &saving, const ConnectionChoice &choice)
        : saving_(saving), close_(choice.close), keep_(choice.keep), hold_(choice.hold)
    {}

    Result<void> look();
    Result<void> save();

  private:
    const Seen &seen_of(const SeenSocket &socket) const { return saving_.seen()[socket.seen]; }

    // save_sockets.cpp
    bool is_to_be_accepted(const capture::SocketLook &look) const;
    bool needs_no_peer(const capture::SocketLook &look) const;
    void keep_more(const capture::SocketLook &look, const SocketPlace &place, uint32_t open_file);
    void keep_groups(const capture::SocketLook &look, uint32_t open_file);
    void keep_peer(const Seen &seen);
    Result<void> save_sockets();
    // save_passed.cpp: queued messages, and the open files that they carry.
    Result<void> look_into_all();
    Result<bool> look_at_new();
    Result<void> find_passed(SeenSocket &socket);
    void save_passed();
    // save_connections.cpp: TCP connections with both ends in the checkpoint.
    void look_at_connections();
    void save_connections();
    // save_waiting.cpp: connections that have not been accepted yet. Finds the callers, or why they
    // cannot be saved.
    void look_at_waiting();
    Result<void> find_unix_callers(uint64_t listener, SeenSocket &socket) const;
    Result<void> find_tcp_callers(SeenSocket &socket);
    void save_waiting();
    // save_kept.cpp: TCP connections to processes outside that wait for a restart.
    bool may_be_kept(const SeenSocket &socket) const;
    void look_at_kept();
    static std::string why_not_kept(const SeenSocket &socket);
    void save_kept(SeenSocket &socket, image::Socket &record);

    Saving &saving_;
    bool close_, keep_;
    ConnectionHold *hold_;
    LookedAt looked_at_;
    capture::GroupTables group_tables_;
    std::vector<std::pair<size_t, size_t>> tcp_connections_; // acceptor, caller: in saving_.seen()
};

} // namespace cryo::resources
