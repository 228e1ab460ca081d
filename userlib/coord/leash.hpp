// SPDX-License-Identifier: Apache-2.0
//
// A connection to the node's daemon with whose end the kernel ends this process (rank_leash.cpp).
// Also for a process that is to become another program: the connection stays, if it is not closed
// on exec, and so does the process.
//
//     if (is_fenced(environ) && ask_for_leash(socket) == Leash::given && wear_leash(socket))
//         ...                            // else the daemon has ended
#pragma once

#include "coord/place.hpp"

namespace cryo::coord {

// Set to 1 by the first daemon of a supervised job: what cannot be ended with its node's daemon
// must not run.
inline constexpr const char *fenced_variable = "CRYO_FENCED";
bool is_fenced(const char *const *environment);

enum class Leash {
    given,
    not_needed, // the daemon is the job's first one
    refused,    // the daemon has ended, or cannot
};
// On a connection of its own, before anything else is sent there.
Leash ask_for_leash(int socket);
// From now on. The descriptor may be a duplicate; nothing may be sent any more.
bool wear_leash(int socket);

} // namespace cryo::coord
