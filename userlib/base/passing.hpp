// SPDX-License-Identifier: Apache-2.0
//
// Messages on UNIX sockets: packets, which are never empty, and descriptors (SCM_RIGHTS).
//
//     ssize_t n = send_with(to, bytes, {{file}});
//     std::vector<Fd> fds;
//     ssize_t n = receive_with(from, room, fds);        // those that came, closed on exec
//     ssize_t n = receive_packet(from, room);           // none are expected
//
// They return what sendmsg() and recvmsg() do, and begin again when a signal interrupts them.
//
// Linux looks first for a packet and then whether the other end has hung up, and says the latter if
// that has sent a packet and hung up in between; one that has not read everything has reset the
// connection, which is said first, too. What was sent is there all the same: those who receive here
// are told of the end when there is nothing more.
#pragma once

#include "base/fd.hpp"

#include <cstddef>
#include <span>
#include <sys/types.h>
#include <vector>

namespace cryo {

constexpr size_t most_passed = 253; // by one message: the kernel's SCM_MAX_FD

// Never raises SIGPIPE. EINVAL: more descriptors than one message can bring. `address`: of whom a
// datagram is for, as sendto(2) takes it; empty: whom `to` is connected to.
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
