// SPDX-License-Identifier: Apache-2.0
//
// Restores the options of a socket.
//
//     Result<void> set = set_socket_options(fd, saved);
#pragma once

#include "base/result.hpp"
#include "image/records.hpp"

namespace cryo::resources {

// Of a connection all but those that its addresses fix.
Result<void> set_socket_options(int fd, const image::Socket &saved);

} // namespace cryo::resources
