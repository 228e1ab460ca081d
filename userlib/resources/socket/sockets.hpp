// SPDX-License-Identifier: Apache-2.0
//
// Saves the sockets of a stopped program: their properties, the data queued in them, and the
// connections between them.
//
//     Sockets sockets(saving, false);
//     Result<void> done = sockets.look(); // adds the open files that only travel in messages
//     ... // these have their records
//     done = sockets.save();
#pragma once

#include "base/result.hpp"
#include "look/multicast.hpp"
#include "resources/saving.hpp"
#include "resources/socket/looked_at.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cryo::resources {

class Sockets
{
  public:
    // `close`: connections to outside come back as closed.
    Sockets(Saving &saving, bool close) : saving_(saving), close_(close) {}

    Result<void> look();
    bool is_listening(const Seen &seen) const;
    Result<void> save();

  private:
    const Seen &seen_of(const SeenSocket &socket) const { return saving_.seen()[socket.seen]; }

    // save_sockets.cpp
    bool is_to_be_accepted(const capture::SocketLook &look) const;
    bool needs_no_peer(const capture::SocketLook &look) const;
    void keep_more(const capture::SocketLook &look, uint32_t open_file);
    void keep_groups(const capture::SocketLook &look, uint32_t open_file);
    void keep_peer(const Seen &seen);
    Result<void> save_sockets();
    // save_passed.cpp: queued messages, and the open files that they carry.
    Result<void> look_into_all();
    Result<bool> look_at_new();
    Result<void> find_passed(SeenSocket &socket);
    void save_passed();
    // save_connections.cpp: TCP connections with both ends in the checkpoint, and UNIX connections
    // that have not been accepted yet.
    void look_at_connections();
    void look_at_waiting();
    void save_connections();

    Saving &saving_;
    bool close_;
    LookedAt looked_at_;
    capture::GroupTables group_tables_;
    std::vector<std::pair<size_t, size_t>> tcp_connections_; // acceptor, caller: in saving_.seen()
};

} // namespace cryo::resources
