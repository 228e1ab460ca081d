/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators that are made by messages which no clock counts, and others that one rank frees
 * long before the rest, with messages on them still in flight.
 *
 *     meetings ROUNDS
 */
#include "check.h"

#include <sched.h>
#include <stdlib.h>

#define BIG 40000

static int rank, size;
static unsigned long long sum;

static void note(long value)
{
    sum = mix(sum, &value, sizeof(value));
}

static void dawdle(int how_long)
{
    for (int i = 0; i < how_long; i++)
        sched_yield();
}

/* Two halves whose leaders arrive at different times. */
static void across(int round)
{
    MPI_Comm half, both, all;
    const int left = size / 2, is_left = rank < left;
    OK(MPI_Comm_split(MPI_COMM_WORLD, is_left, rank, &half));
    dawdle((round + is_left) % 2 * 30);
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_left ? left : 0, round % 3, &both));
    long in = rank + round, out = -1;
    OK(MPI_Allreduce(&in, &out, 1, MPI_LONG, MPI_SUM, both));
    note(out);
    OK(MPI_Intercomm_merge(both, is_left, &all));
    OK(MPI_Allreduce(&in, &out, 1, MPI_LONG, MPI_SUM, all));
    note(out);
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_free(&both));
    OK(MPI_Comm_free(&all));
}

/* All ranks but one; the copy returns errors. */
static void without_one(int round)
{
    const int absent = round % size;
    MPI_Group world, group;
    MPI_Comm copy, some;
    MPI_Errhandler handler;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
    OK(MPI_Comm_group(copy, &world));
    OK(MPI_Group_excl(world, 1, &absent, &group));
    if (rank != absent) {
        dawdle(rank * 10);
        OK(MPI_Comm_create_group(copy, group, 5, &some));
        OK(MPI_Comm_get_errhandler(some, &handler));
        CHECK(handler == MPI_ERRORS_RETURN);
        OK(MPI_Errhandler_free(&handler));
        int in = rank, out = -1;
        OK(MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, some));
        note(out);
        OK(MPI_Comm_free(&some));
    }
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
    OK(MPI_Comm_free(&copy));
}

/* Rank 0 frees a communicator, and only then sends the message that rank 1 awaits before it frees
 * its own. Their messages on it are completed last. */
static void freed_early(int round)
{
    static int to[2][BIG], from[2][BIG];
    const int lengths[2] = {1 + round % 7, BIG}, other = 1 - rank;
    MPI_Comm comm;
    MPI_Request requests[4];
    int word = round;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    if (rank < 2) {
        for (int i = 0; i < 2; i++) {
            OK(MPI_Irecv(from[i], BIG, MPI_INT, other, i, comm, &requests[i]));
            for (int j = 0; j < lengths[i]; j++)
                to[i][j] = rank + round + i + j;
            OK(MPI_Isend(to[i], lengths[i], MPI_INT, other, i, comm, &requests[2 + i]));
        }
        if (rank == 1)
            OK(MPI_Recv(&word, 1, MPI_INT, 0, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    OK(MPI_Comm_free(&comm));
    CHECK(comm == MPI_COMM_NULL && word == round);
    if (rank == 0) {
        dawdle(30);
        OK(MPI_Send(&word, 1, MPI_INT, 1, 77, MPI_COMM_WORLD));
    }
    if (rank < 2) {
        MPI_Status statuses[4];
        OK(MPI_Waitall(4, requests, statuses));
        for (int i = 0; i < 2; i++) {
            int count = -1;
            OK(MPI_Get_count(&statuses[i], MPI_INT, &count));
            CHECK(count == lengths[i] && statuses[i].MPI_SOURCE == other);
            for (int j = 0; j < count; j++)
                CHECK(from[i][j] == other + round + i + j);
            note(from[i][count - 1]);
        }
    }
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(size > 2 && argc == 2);
    for (int round = 0; round < atoi(argv[1]); round++) {
        across(round);
        without_one(round);
        freed_early(round);
    }
    wait_to_end();
    printf("%d: %016llX\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
