// SPDX-License-Identifier: Apache-2.0
//
// Who has the other end of a pipe or of a connection: a process that is left out of the checkpoint,
// but would be in one of its whole session.
//
//     const std::string way_out = "--sockets=close brings it back as closed" +
//                                 offer_session(412, {412, 413}, link_of_peer(look));
#pragma once

#include "capture/socket_look.hpp"

#include <set>
#include <string>
#include <sys/types.h>

namespace cryo::capture {

// "socket:[4711]", as /proc/PID/fd has it; empty: not known.
std::string link_of_peer(const SocketLook &look);

// Tells of cr_checkpoint --sid ("; process 414 ..."); empty: no process of the session of `member`
// has such a descriptor but the members, or the session has processes that Cryo cannot save.
std::string offer_session(pid_t member, const std::set<pid_t> &members, const std::string &link);

} // namespace cryo::capture
