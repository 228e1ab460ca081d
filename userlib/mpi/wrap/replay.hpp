// SPDX-License-Identifier: Apache-2.0
//
// Preserves the program's handles across a restart. Nothing is recorded while the program runs:
// right before an image is taken, the library is asked to describe each live handle, and after the
// restart a new library recreates them. The descriptions lie in Cryo's own memory, in the image.
//
//     if (!describe_handles(why)) …     // false: `why` names what cannot be recreated
//     …                                 // the image is taken
//     forget_description();             // in the program that continues
//     if (!replay(why)) …               // in the restored copy, with a library just loaded
//
// Each kind of handle has its own source: replay_KIND.cpp, or KIND.cpp for some.
#pragma once

#include "agent/lodger.hpp"
#include "mpi/capsule/capsule.hpp"

namespace cryo::mpi {

// Called by a thread that has entered, while no other thread is inside.
bool describe_handles(capsule::Refusal &why);
// As describe_handles(), in a signal handler, while all threads of the program are stopped outside
// the library. Does nothing if the handles are described already.
bool describe_stopped(agent::LodgerRefusal &why);
void forget_description();

// Calls MPI_Init as the program did, then recreates all handles that were described.
bool replay(capsule::Refusal &why);

} // namespace cryo::mpi
