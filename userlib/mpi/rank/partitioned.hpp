// SPDX-License-Identifier: Apache-2.0
//
// Partitioned communication, without the library's: that one matches both sides by messages on the
// program's communicator, which a checkpoint would take for the program's. Here each partition is
// an ordinary message, over a communicator of all ranks used for nothing else, *the place*; so
// there is nothing more to save.
//
//     sender, MPI_Psend_init        appointment, with tag 0: which communicator and tag, how many
//                                   partitions of how many bytes, the first of their tags
//     receiver                      assigns it to its oldest matching request, which the program
//                                   may have freed
//     sender, MPI_Pready            the partition, with its tag, which is the same at each start
//
// Messages of one rank do not overtake each other, so appointments match requests in order, and a
// start's partitions match those of the same start.
#pragma once

#include "mpi/rank/completion.hpp"

namespace cryo::mpi::rank {

void prepare_partitioned(); // in MPI_Init, in all ranks

// Whether partitioned requests on `comm` are handled here; if not, the library handles them.
bool counts_partitioned(MPI_Comm comm);
int make_partitioned(bool sends, const void *buf, int partitions, MPI_Count count,
                     MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request);
int send_part(Request &request, int number);
int ask_for_part(Request &request, int number, int *flag);

int start_partitioned(Request &request);
bool poll_partitioned(Request &request); // true: all partitions received, or sent
void pause_for_partitioned(Request &request);
void forget_partitioned(Request &request);

} // namespace cryo::mpi::rank
