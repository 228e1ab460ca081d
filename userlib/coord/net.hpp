// SPDX-License-Identifier: Apache-2.0
//
// TCP between daemons: no fixed ports.
//
//     Result<Listening> at = listen_tcp();   // CRYO_LISTEN: the address to listen at, else all
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
    std::vector<std::string> addresses; // by which other nodes may reach it, likeliest first
};

Result<Listening> listen_tcp();
// The first address that takes the connection; each is given two seconds.
Result<Fd> connect_tcp(const std::vector<std::string> &addresses, uint16_t port);

} // namespace cryo::coord
