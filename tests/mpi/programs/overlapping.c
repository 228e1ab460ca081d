/* SPDX-License-Identifier: Apache-2.0 */
/* Several collective functions at once that take steps in which the ranks meet: on one file, and
 * copies of one communicator among other collectives on it. Between two of them a rank computes
 * outside MPI: an MPI library that made progress there would take these steps in another order than
 * the other ranks, and all would wait for ever.
 *
 *     overlapping ROUNDS [threads]      // with MPI_THREAD_MULTIPLE
 */
#include "check.h"

#include <string.h>

enum { AT_ONCE = 4, BYTES = 6000 };

static unsigned seed;

static void compute(void)
{
    volatile unsigned sum = 0;
    for (int i = rand_r(&seed) % 60000; i > 0; i--)
        sum += (unsigned)i;
}

static unsigned char byte_of(int round, int rank, int which, int place)
{
    return (unsigned char)(31 * round + 17 * rank + 7 * which + place);
}

/* Not MPI_Waitall: MPICH's polls all of them in turn, and so takes the steps in any order. */
static void wait_in_order(MPI_Request *requests)
{
    for (int i = 0; i < AT_ONCE; i++)
        OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
}

/* The ranks' parts interleave, so they are gathered first, in steps. */
static void files(MPI_File file, int round, int rank, int size)
{
    static unsigned char out[AT_ONCE][BYTES], in[AT_ONCE][BYTES];
    MPI_Request requests[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) {
        for (int k = 0; k < BYTES; k++)
            out[i][k] = byte_of(round, rank, i, k);
        compute();
        OK(MPI_File_iwrite_at_all(file, (MPI_Offset)(i * size + rank) * BYTES, out[i], BYTES,
                                  MPI_BYTE, &requests[i]));
    }
    wait_in_order(requests);
    OK(MPI_File_sync(file));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    const int other = (rank + 1) % size;
    for (int i = 0; i < AT_ONCE; i++) {
        compute();
        OK(MPI_File_iread_at_all(file, (MPI_Offset)(i * size + other) * BYTES, in[i], BYTES,
                                 MPI_BYTE, &requests[i]));
    }
    wait_in_order(requests);
    for (int i = 0; i < AT_ONCE; i++) {
        for (int k = 0; k < BYTES; k++)
            CHECK(in[i][k] == byte_of(round, other, i, k));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void copies(int round, int rank, int size)
{
    MPI_Comm copy[AT_ONCE];
    MPI_Request requests[2 * AT_ONCE];
    int in[AT_ONCE], out[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) {
        in[i] = round + rank * i;
        OK(MPI_Comm_idup(MPI_COMM_WORLD, &copy[i], &requests[2 * i]));
        compute();
        OK(MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                          &requests[2 * i + 1]));
        compute();
    }
    OK(MPI_Waitall(2 * AT_ONCE, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < AT_ONCE; i++) {
        int sum;
        CHECK(out[i] == size * round + i * size * (size - 1) / 2);
        OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, copy[i]));
        CHECK(sum == size * (size - 1) / 2);
        OK(MPI_Comm_free(&copy[i]));
    }
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    const int level = argc > 2 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    int rank, size, provided;
    char name[4096];
    MPI_Info hints;
    MPI_File file;
    OK(MPI_Init_thread(&argc, &argv, level, &provided));
    CHECK(provided >= level);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    seed = (unsigned)rank + 1;
    snprintf(name, sizeof(name), "%s/overlapping", getenv("CRYO_SCRATCH"));
    OK(MPI_Info_create(&hints));
    OK(MPI_Info_set(hints, "romio_cb_write", "enable"));
    OK(MPI_Info_set(hints, "romio_cb_read", "enable"));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, hints, &file));
    OK(MPI_Info_free(&hints));
    for (int round = 0; round < rounds; round++) {
        files(file, round, rank, size);
        copies(round, rank, size);
    }
    OK(MPI_File_close(&file));
    printf("%d: %d rounds\n", rank, rounds);
    OK(MPI_Finalize());
    return 0;
}
