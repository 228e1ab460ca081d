// SPDX-License-Identifier: Apache-2.0
//
// Completes sockets when all of them exist: queued packets of other sockets, and multicast groups.
//
//     if (is_udp)
//         Result<void> sent = send_udp(opening, socket, senders, bytes);
//     Result<void> joined = join_multicasts(opening); // last: nothing else has to come into one
#pragma once

#include "base/result.hpp"
#include "resources/opening.hpp"
#include "resources/socket/socket_name.hpp"

#include <string_view>
#include <vector>

namespace cryo::resources {

// fill_udp.cpp
Result<void> send_udp(const Opening &opening, const image::Socket &to,
                      const image::Senders &senders, std::string_view bytes);
// fill_datagrams.cpp: under their senders' names, each with the descriptors that it carries. The
// names may be relative to the working directory.
Result<void> send_datagrams(Opening &opening, const SocketName &address, const image::Socket &to,
                            const image::Senders &senders, std::string_view bytes,
                            const std::vector<std::vector<int>> &descriptors);
// open_groups.cpp
Result<void> join_multicasts(const Opening &opening);

} // namespace cryo::resources
