// SPDX-License-Identifier: Apache-2.0
//
// The directions that a UDP socket has shut down.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>

namespace cryo::capture {

// 1 reading, 2 writing. A shutdown of writing alone is reported only by udp_diag, for
// sockets that have a port and are in the caller's network namespace; for others, and on a kernel
// that has no udp_diag, or where this process may not use netlink at all, writing counts as open.
// An error: the kernel has it, and did not answer. `local`: in the format of bind(2).
Result<uint32_t> udp_shutdown(int fd, const std::string &local, uint64_t inode);
// If it fails, SocketLook::problem of the socket says why.
std::string untold_shutdown(const Error &error);
// Whether it may succeed in the next try: SocketLook::passing.
bool may_tell_later(const Error &error);

} // namespace cryo::capture
