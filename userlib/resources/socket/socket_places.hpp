// SPDX-License-Identifier: Apache-2.0
//
// Sockets that are not where their names lead: the file of a UNIX socket was removed, or no
// interface of the machine has the address of an internet socket (any more, or never had:
// IP_FREEBIND).
#pragma once

#include "look/socket_look.hpp"

#include <string>

namespace cryo::resources {

// What the kernel tells about the file of a UNIX socket that is not at its place.
struct SocketFile {
    bool is_known = false; // only root is told
    bool is_removed = false;
    std::string path; // of one that is elsewhere
};

// How it has to be made where its name alone does not say it.
struct SocketPlace {
    bool file_removed = false;
    bool is_sure = true; // that it was removed, and not moved to another directory
    bool absent_address = false;
};

SocketFile file_of(int socket);
bool has_absent_address(const capture::SocketLook &look);

} // namespace cryo::resources
