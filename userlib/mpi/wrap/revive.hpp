// SPDX-License-Identifier: Apache-2.0
//
// Restart of a saved rank: a new stock library replaces the old one, under another mpirun, and the
// program's handles keep their meaning.
//
//     begin_lodging();                 // the library is loaded: images leave it out
//     …                                // a checkpoint; in the restored copy
//     if (capsule::is_open()) …        // false: the next MPI call loads a library, and
//     if (!revive(why)) …              // brings it to where the old one was
//
// Handles are described when the agent reports that all threads are stopped (replay.hpp), so saving
// a rank needs no further step: whether its threads are stopped between MPI calls or in a wrapper,
// outside the library.
#pragma once

#include "mpi/capsule/capsule.hpp"

namespace cryo::mpi {

// Tells the agent, if there is one, to leave the capsule out of images.
void begin_lodging();

// True in a restored copy until revive() is called.
bool is_to_revive();

// The environment for the library: the program's or, after a restart, the restarting process's.
char *const *job_environment();

// Does now what the first MPI call in a restored copy would do: for rank::Hooks.
bool revive_now(void *unused, capsule::Refusal &why);

// In a restored copy, with a library that has just been loaded: MPI_Init and all handles.
bool revive(capsule::Refusal &why);

} // namespace cryo::mpi
