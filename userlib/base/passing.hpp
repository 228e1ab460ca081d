// SPDX-License-Identifier: Apache-2.0
//
// Messages on UNIX sockets: nonempty packets, and descriptors (SCM_RIGHTS).
//
//     ssize_t n = send_with(to, bytes, {{file}});
//     std::vector<Fd> fds;
//     ssize_t n = receive_with(from, room, fds);        // appends them, close-on-exec
//     ssize_t n = receive_packet(from, room);           // no descriptors expected
//
// They return what sendmsg() and recvmsg() do, and retry when a signal interrupts them.
//
// Linux first looks for a packet and then for a hang-up, so it reports the latter if the peer sends
// a packet and hangs up in between; a peer that closes without having read everything resets the
// connection, which is also reported first. The packet is still there: these functions report the
// end of the connection only once nothing is left to receive.
#pragma once

#include "base/fd.hpp"

#include <cstddef>
#include <span>
#include <sys/types.h>
#include <vector>

namespace cryo {

constexpr size_t most_passed = 253; // in one message: the kernel's SCM_MAX_FD

// Never raises SIGPIPE. EINVAL: more descriptors than fit one message. `address`: a datagram's
// destination, as for sendto(2); empty: the peer that `to` is connected to.
ssize_t send_with(int to, std::span<const char> bytes, std::span<const int> fds, int flags = 0,
                  std::span<const char> address = {});
// Appends to `fds`.
ssize_t receive_with(int from, std::span<char> room, std::vector<Fd> &fds, int flags = 0);
ssize_t receive_packet(int from, std::span<char> room, int flags = 0);

template <class T>
std::span<const char> bytes_of(const T &one)
{
    return {reinterpret_cast<const char *>(&one), sizeof(one)};
}
template <class T>
std::span<char> room_in(T &one)
{
    return {reinterpret_cast<char *>(&one), sizeof(one)};
}

} // namespace cryo
