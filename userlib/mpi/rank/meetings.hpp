// SPDX-License-Identifier: Apache-2.0
//
// Two functions create a communicator by messages that no clock covers, with a tag that the program
// chooses: MPI_Comm_create_group, a collective of its members only, and MPI_Intercomm_create, whose
// two leaders are members of different communicators. A stopped rank would not know that others
// wait for it, and would take such a message for one of the program's.
//
// So the participants first meet by exchanging counted messages, and run on until they have left
// the function; and the library's own messages use a communicator, *the bridge*, that the engine
// never drains.
#pragma once

#include "mpi/stock/stock.hpp"

namespace cryo::mpi::rank {

void prepare_meetings(); // in MPI_Init, in all ranks, also where nothing is counted
void restore_meetings(); // after a restart, in all ranks

// The library's handle of the bridge; null before prepare_meetings().
MPI_Comm bridge_of_library();

} // namespace cryo::mpi::rank
