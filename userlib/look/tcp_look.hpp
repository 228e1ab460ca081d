// SPDX-License-Identifier: Apache-2.0
//
// TCP connections of which both ends belong to stopped processes of the checkpoint.
//
//     for (const auto &[one, two] : tcp_pairs(looks)) {
//         Result<void> quiet = await_delivery(fds[one], fds[two]);
//         Result<std::string> waits = peek_tcp(fds[one]);
//     }
#pragma once

#include "look/socket_look.hpp"

#include <span>
#include <utility>

namespace cryo::capture {

// Pairs of indexes that are the two ends of one connection; the first is most likely the one that
// accepted it.
std::vector<std::pair<size_t, size_t>> tcp_pairs(std::span<const SocketLook *const> looks);

// Waits until all that each end sent, including its FIN, has arrived. ENOTSUP: it does not.
Result<void> await_delivery(int one, int two);

// Peeks the unread input of this end; ENOTSUP: it holds something that cannot be saved.
Result<std::string> peek_tcp(int fd);

// Which directions this end itself has shut down: 1 reading, 2 writing. ENOTSUP: the connection is
// neither open nor half closed.
Result<uint32_t> tcp_shutdown(int fd);

} // namespace cryo::capture
