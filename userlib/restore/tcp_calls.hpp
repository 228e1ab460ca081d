// SPDX-License-Identifier: Apache-2.0
//
// TCP sockets of cr_restart that connect from the addresses that sockets of the program had.
//
//     Result<Fd> made = when_free(Address(saved.local), [&] { return begin_call(saved); });
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/records.hpp"
#include "resources/socket/tcp_lingering.hpp"

#include <cstdint>
#include <functional>

namespace cryo::restore {

// Options of a socket that are numbers; 0: it does not tell.
void set_number(int fd, int level, int name, uint32_t value);
uint32_t number(int fd, int level, int name);
// What limits the segments of a connection from its first moment on (TCP_MAXSEG); 0: nothing.
uint32_t segment_limit(const image::Socket &saved);
// A nonblocking one.
Fd tcp_socket(uint32_t domain);
// Tries until it works, or until the obstacle is not an ended connection of this port. An attempt
// that fails leaves the reason in errno.
Result<Fd> when_free(const resources::TcpAddress &address, const std::function<Fd()> &attempt);
// A nonblocking socket that has this one's address and connects to its peer, or has done so. None:
// see errno.
Fd begin_call(const image::Socket &caller);

} // namespace cryo::restore
