// SPDX-License-Identifier: Apache-2.0
//
// A program may forbid its own user to write to the file of a socket after others have connected,
// or may be saved by root and restored by that user. Only who may write to the file can connect.
//
//     const int why = connect_lent(name, [&] { return connects(fd, name); });
#pragma once

#include "base/open_found.hpp"
#include "resources/socket/socket_name.hpp"

#include <functional>

namespace cryo::resources {

// What `connects` returns: 0 or an errno. If that is EACCES and the socket's file is the caller's
// own, once more while its mode allows it (base/lent_mode.hpp).
int connect_lent(const SocketName &name, const std::function<int()> &connects);
int connect_lent(const Found &file, const std::function<int()> &connects);

} // namespace cryo::resources
