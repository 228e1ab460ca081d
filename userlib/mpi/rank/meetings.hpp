// SPDX-License-Identifier: Apache-2.0
//
// Two functions make a communicator by messages that no clock tells of, with a tag that the program
// chooses: MPI_Comm_create_group, a collective of its members only, and MPI_Intercomm_create, whose
// two leaders are members of different communicators. A rank that stands still would not know that
// it is waited for, and would take such a message for one of the program's.
//
// So those who are concerned meet before, by messages that are counted, and run on until they have
// left the function; and the library's own messages go by a communicator, *the bridge*, that the
// engine does not look into.
#pragma once

#include "mpi/wrap/stock.hpp"

namespace cryo::mpi::rank {

void prepare_meetings(); // in MPI_Init, in all ranks, also where nothing is counted
void restore_meetings(); // after a restart, in all ranks

// The library's handle of the bridge; null before prepare_meetings().
MPI_Comm bridge_of_library();

} // namespace cryo::mpi::rank
