// SPDX-License-Identifier: Apache-2.0
//
// TCP between daemons: no fixed ports, and one address. A port is bound from the
// start, because others are told of it; connections are refused until it listens.
//
//     Result<Listening> at = keep_port(address);     // others are refused
//     Result<void> now = at->listen();               // from here on they are not
//     Result<Fd> fd = connect_tcp(addresses, port);
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace cryo::coord {

struct Listening {
    Fd socket;
    uint16_t port = 0;
    std::vector<std::string> addresses; // by which other nodes reach it

    Result<void> listen() const;
};

// `port`: this one, and 0: any that is free.
Result<Listening> keep_port(const std::string &address, uint16_t port = 0);
void be_quick(int socket); // sends small messages at once
// A connection's own address, and that of its peer.
std::string address_from(int socket);
std::string address_to(int socket);
// The first address that takes the connection; each is given two seconds.
Result<Fd> connect_tcp(const std::vector<std::string> &addresses, uint16_t port);

} // namespace cryo::coord
