// SPDX-License-Identifier: Apache-2.0
//
// TCP connections whose both ends are in our hands, and stand still.
//
//     for (const auto &[one, two] : tcp_pairs(looks)) {
//         Result<void> quiet = await_delivery(fds[one], fds[two]);
//         Result<std::string> waits = peek_tcp(fds[one]);
//     }
#pragma once

#include "capture/socket_look.hpp"

#include <span>
#include <utility>

namespace cryo::capture {

// Which of these are the two ends of one connection, as positions; the first is rather the one that
// has accepted it.
std::vector<std::pair<size_t, size_t>> tcp_pairs(std::span<const SocketLook *const> looks);

// Until what each end has sent, its end included, has come to the other one. ENOTSUP: it does not.
Result<void> await_delivery(int one, int two);

// What waits to be read at this end, left there; ENOTSUP: something that cannot be saved.
Result<std::string> peek_tcp(int fd);

// Which directions this end has shut down itself: 1 reading, 2 writing. ENOTSUP: the connection is
// neither open nor half closed.
Result<uint32_t> tcp_shutdown(int fd);

} // namespace cryo::capture
