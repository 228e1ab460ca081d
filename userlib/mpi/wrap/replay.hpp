// SPDX-License-Identifier: Apache-2.0
//
// The program's handles, across a restart. Nothing is written down while the program runs: right
// before an image is taken, the library is asked what each live handle is, and after the restart a
// new library is told. The answers lie in memory of Cryo's own, which is part of the image.
//
//     if (!describe_handles(why)) …     // refused by name: what cannot be made again
//     …                                 // the image is taken
//     forget_description();             // in the program that goes on
//     if (!replay(why)) …               // in the restored copy, with a library just loaded
//
// Each kind of handle has its own source, replay_KIND.cpp.
#pragma once

#include "agent/lodger.hpp"
#include "mpi/capsule/capsule.hpp"

namespace cryo::mpi {

// For a thread that has entered, at a point where no other one is inside.
bool describe_handles(capsule::Refusal &why);
// The same in a signal handler, while all threads of the program stand still outside the library.
// Does nothing when they are described already.
bool describe_stopped(agent::LodgerRefusal &why);
void forget_description();

// MPI_Init as the program called it, then all handles that were described.
bool replay(capsule::Refusal &why);

} // namespace cryo::mpi
