// SPDX-License-Identifier: Apache-2.0
//
// Persistent collectives. Members may start them in different orders, so each has a clock of its
// own; an active one is awaited like a non-blocking collective. After a restart all are recreated,
// in an order that all members agree on, except those that a member has freed, which can never be
// started again. The types and operations they need are kept even if the program frees them.
#pragma once

#include "mpi/rank/engine.hpp"

namespace cryo::mpi::rank {

// Called when the program has freed the request and it is not active.
void forget_collective(Request &request);

// Before an image: returns false, with the reason, if one of them cannot be recreated.
bool may_make_collectives_again(capsule::Refusal &why);
// After a restart, once communicators, types and operations exist again.
bool make_collectives_again(capsule::Refusal &why);

} // namespace cryo::mpi::rank
