/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of blocking and non-blocking messages with collectives in between, for as many rounds as
 * the first argument says. Prints a checksum of what each rank received; and the second argument,
 * if there is one, after the first round, when all ranks are at work. */
#include "ring.h"
#include "witness.h"

#include <string.h>
#include <unistd.h>

#define WORDS 20000

static unsigned long long sum = 14695981039346656037ULL;

/* Eager messages run ahead of their receives, so that there is something to drain. */
static void ahead(int round)
{
    int value, in[8];
    MPI_Request requests[8];
    for (int i = 0; i < 8; i++) {
        value = rank * 1000 + round * 10 + i;
        OK(MPI_Send(&value, 1, MPI_INT, right, i % 3, MPI_COMM_WORLD));
    }
    for (int i = 7; i >= 0; i--)
        OK(MPI_Irecv(&in[i], 1, MPI_INT, left, i % 3, MPI_COMM_WORLD, &requests[i]));
    OK(MPI_Waitall(8, requests, MPI_STATUSES_IGNORE));
    sum = mix(sum, in, sizeof(in));
}

/* Rendezvous, with the receives posted long before. */
static void large(int round)
{
    static int in[WORDS], out[WORDS];
    MPI_Request requests[2];
    MPI_Status status;
    OK(MPI_Irecv(in, WORDS, MPI_INT, MPI_ANY_SOURCE, 20, MPI_COMM_WORLD, &requests[0]));
    for (int i = 0; i < WORDS; i++)
        out[i] = rank + round * i;
    OK(MPI_Isend(out, WORDS, MPI_INT, left, 20, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    OK(MPI_Wait(&requests[0], &status));
    CHECK(status.MPI_SOURCE == right);
    sum = mix(sum, in, sizeof(in));
}

/* Messages that are not yet received, and a receive that has no message yet, while the program
 * computes: long enough that some of the checkpoints find them. */
static void in_flight(int round)
{
    int value = rank * 7 + round, late, in[8];
    MPI_Request request;
    OK(MPI_Irecv(&late, 1, MPI_INT, left, 40, MPI_COMM_WORLD, &request));
    for (int i = 0; i < 8; i++)
        OK(MPI_Send(&value, 1, MPI_INT, right, 41 + i, MPI_COMM_WORLD));
    usleep(10000);
    for (int i = 7; i >= 0; i--)
        OK(MPI_Recv(&in[i], 1, MPI_INT, left, 41 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Send(&value, 1, MPI_INT, right, 40, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    sum = mix(mix(sum, in, sizeof(in)), &late, sizeof(late));
}

static void ping_pong(int round)
{
    int value = round, got;
    const int partner = rank ^ 1;
    if (partner >= size)
        return;
    for (int i = 0; i < 20; i++) {
        if (rank % 2 == 0) {
            OK(MPI_Send(&value, 1, MPI_INT, partner, 30, MPI_COMM_WORLD));
            OK(MPI_Recv(&got, 1, MPI_INT, partner, 30, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Recv(&got, 1, MPI_INT, partner, 30, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            value = got * 3 + i;
            OK(MPI_Send(&value, 1, MPI_INT, partner, 30, MPI_COMM_WORLD));
        }
    }
    sum = mix(sum, &got, sizeof(got));
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    begin_ring(&argc, &argv);
    for (int round = 0; round < rounds; round++) {
        unsigned long long all;
        bear_witness(rank);
        ahead(round);
        large(round);
        ping_pong(round);
        if (round % 16 == 0)
            in_flight(round);
        OK(MPI_Allreduce(&sum, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_BXOR, MPI_COMM_WORLD));
        sum = mix(sum, &all, sizeof(all));
        if (round == 0 && rank == 0 && argc > 2) {
            puts(argv[2]);
            fflush(stdout);
        }
    }
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
