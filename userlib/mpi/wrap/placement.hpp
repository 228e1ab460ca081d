// SPDX-License-Identifier: Apache-2.0
//
// On which node each rank is, and was when the job was saved, for the program (cryo_placement.h).
//
//     note_node();                 // in MPI_Init
//     gather_placement(why);       // in a restored copy with a new library: all ranks call it
//     tell_of_restart();           // before it goes on: the program's functions are called
#pragma once

#include "mpi/capsule/capsule.hpp"

namespace cryo::mpi {

void note_node();

// A collective of all ranks. RULE: what it uses may run in a signal handler.
bool gather_placement(capsule::Refusal &why);

void tell_of_restart();

} // namespace cryo::mpi
