// SPDX-License-Identifier: Apache-2.0
//
// Makes both ends of a connection to a named UNIX socket.
//
//     Result<ConnectedPair> pair = connect_pair(listener, name, kind, caller);
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/format.hpp"
#include "resources/socket/socket_name.hpp"
#include "restore/namesake.hpp"

#include <functional>
#include <optional>

namespace cryo::restore {

using resources::SocketName;

struct ConnectedPair {
    Fd one, two; // the accepted end, and the one that has connected
};

// Makes the one that is to connect, if there can be one.
using CallerMaker = std::function<std::optional<Namesake>(const Namesake::Deed &)>;

// Connects to the listener, which is a socket of this process, as `caller`: a name or nothing. Any
// program may connect to it at the same time, and is sent away, as with any server that has just
// started; those that fill its queue have five seconds to let this one pass. The accepted end names
// whoever has connected (SO_PEERCRED): this process, or, with `as`, a namesake.
Result<ConnectedPair> connect_pair(int listener, const SocketName &address, int kind,
                                   image::Bytes caller, const CallerMaker &as = {});

} // namespace cryo::restore
