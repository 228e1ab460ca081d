// SPDX-License-Identifier: Apache-2.0
//
// A rank that was saved and restarted: a new stock library takes the place of the old one, under
// another mpirun, and the program's handles go on meaning what they meant.
//
//     begin_lodging();                 // the library is loaded: images leave it out
//     …                                // a checkpoint; in the restored copy
//     if (capsule::is_open()) …        // false: the next MPI call loads a library, and
//     if (!revive(why)) …              // brings it to where the old one was
//
// Handles are described when the agent says that everybody stands still (replay.hpp), so whoever
// has a rank saved needs nothing for it: whether its threads stand between MPI calls or in a
// wrapper, outside the library.
#pragma once

#include "mpi/capsule/capsule.hpp"

namespace cryo::mpi {

// Tells the agent, if there is one, that the capsule is not part of images.
void begin_lodging();

// True in a restored copy until revive() has ended.
bool is_to_revive();

// What the library sees: that of the program, or of whoever restarted it.
char *const *job_environment();

// What the first MPI call in a restored copy does, now: for rank::Hooks.
bool revive_now(void *unused, capsule::Refusal &why);

// In a restored copy, with a library that has just been loaded: MPI_Init and all handles.
bool revive(capsule::Refusal &why);

} // namespace cryo::mpi
