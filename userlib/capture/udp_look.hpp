// SPDX-License-Identifier: Apache-2.0
//
// Which directions a UDP socket has shut down.
#pragma once

#include <cstdint>
#include <string>

namespace cryo::capture {

// 1 reading, 2 writing. Of writing alone only the kernel's diagnostics tell (udp_diag), of sockets
// that have a port; where they are not to be had it is taken for open. `local`: as bind(2) takes
// it.
uint32_t udp_shutdown(int fd, const std::string &local, uint64_t inode);

} // namespace cryo::capture
