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

#include <cstddef>
#include <span>
#include <utility>

namespace cryo::capture {

// Pairs of indexes that are the two ends of one connection; the first is most likely the one that
// accepted it.
std::vector<std::pair<size_t, size_t>> tcp_pairs(std::span<const SocketLook *const> looks);

// Waits until all that each end sent, including its FIN, has arrived. ENOTSUP: it does not.
Result<void> await_delivery(int one, int two);

// Peeks the unread input of this end; ENOTSUP: it holds something that cannot be saved, or more. A
// fresh connection might not take more at once than is usual here, about half of what the kernel
// lets it hold.
Result<std::string> peek_tcp(int fd, size_t most = 2 << 20);

// Which directions this end itself has shut down: 1 reading, 2 writing; that of reading is not
// known, and makes no difference, where the peer has shut down its own. ENOTSUP: the connection is
// being opened, or is over.
Result<uint32_t> tcp_shutdown(int fd);

} // namespace cryo::capture
