// SPDX-License-Identifier: Apache-2.0
//
// The directions that a UDP socket has shut down.
#pragma once

#include <cstdint>
#include <string>

namespace cryo::capture {

// 1 reading, 2 writing. A shutdown of writing alone is reported only by udp_diag, for
// sockets that have a port; without it, writing counts as open. `local`: in the format of
// bind(2).
uint32_t udp_shutdown(int fd, const std::string &local, uint64_t inode);

} // namespace cryo::capture
