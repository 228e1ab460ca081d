// SPDX-License-Identifier: Apache-2.0
//
// Persistent collectives. They may be started in another order at each member, so each has a clock
// of its own: an active one is waited for as one that does not block. After a restart all are made
// again, in an order that all members agree on, unless a member has freed its own: those can never
// be started again. What they need is kept for it, also when the program frees it.
#pragma once

#include "mpi/rank/engine.hpp"

namespace cryo::mpi::rank {

// The program has freed the request, and it is not active.
void forget_collective(Request &request);

// Before an image: false, and why one of them cannot be made again.
bool may_make_collectives_again(capsule::Refusal &why);
// After a restart, when communicators, types and operations are there.
bool make_collectives_again(capsule::Refusal &why);

} // namespace cryo::mpi::rank
