/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that stand in a ring, each between two neighbours.
 *
 *     begin_ring(&argc, &argv);
 *     pass_on(round, MPI_COMM_WORLD);
 */
#ifndef CRYO_TESTS_MPI_RING_H
#define CRYO_TESTS_MPI_RING_H

#include "check.h"

static int rank, size, left, right;

static inline void begin_ring(int *argc, char ***argv)
{
    OK(MPI_Init(argc, argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
}

/* A number goes to the left neighbour, and all know the sum, after a pause in which a checkpoint
 * may find the ranks at different calls. */
static inline void pass_on(int round, MPI_Comm comm)
{
    int mine = round + rank, all = 0, from = -1;
    MPI_Request request;
    if ((round + rank) % 4 == 0)
        usleep(1000);
    OK(MPI_Irecv(&from, 1, MPI_INT, right, 7, comm, &request));
    OK(MPI_Send(&mine, 1, MPI_INT, left, 7, comm));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(from == round + right);
    OK(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, comm));
    CHECK(all == size * round + size * (size - 1) / 2);
}

#endif
