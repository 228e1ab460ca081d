// SPDX-License-Identifier: Apache-2.0
//
// TCP between daemons: no fixed ports, and one address. A port is kept from the start, for others
// are told of it; whether anybody listens there is another question.
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

Result<Listening> keep_port(const std::string &address);
void be_quick(int socket); // small messages wait for nothing
// From which address a connection goes out, and by which its node is reached in return.
std::string address_from(int socket);
std::string address_to(int socket);
// The first address that takes the connection; each is given two seconds.
Result<Fd> connect_tcp(const std::vector<std::string> &addresses, uint16_t port);

} // namespace cryo::coord
