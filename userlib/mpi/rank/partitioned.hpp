// SPDX-License-Identifier: Apache-2.0
//
// Partitioned messages, without the library's: that one makes its appointments by messages on the
// program's communicator, where a checkpoint would take them for the program's. Here each partition
// is a message as any other, over a communicator of all ranks that only these use, *the place*; so
// there is nothing more to save.
//
//     sender, MPI_Psend_init        appointment, with tag 0: which communicator and tag, how many
//                                   partitions of how many bytes, the first of their tags
//     receiver                      gives it to the oldest of its requests that fits
//     sender, MPI_Pready            the partition, with its tag; the same at each start
//
// Messages of one rank do not overtake each other, so appointments meet the requests in their
// order, and a start's partitions those of the same start.
#pragma once

#include "mpi/rank/completion.hpp"

namespace cryo::mpi::rank {

void prepare_partitioned(); // in MPI_Init, in all ranks

// Whether they are counted; others are the library's.
bool counts_partitioned(MPI_Comm comm);
int make_partitioned(bool sends, const void *buf, int partitions, MPI_Count count,
                     MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request);
int send_part(Request &request, int number);
int ask_for_part(Request &request, int number, int *flag);

int start_partitioned(Request &request);
bool poll_partitioned(Request &request); // of an active one: all partitions are there, or gone
void pause_for_partitioned(Request &request);
void forget_partitioned(Request &request);

} // namespace cryo::mpi::rank
