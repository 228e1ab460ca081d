/* SPDX-License-Identifier: Apache-2.0 */
/* Costs of MPI calls between two ranks: prints "name nanoseconds", the minimum of ten rounds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 10

static int rank, repeats;
static long in, out;

static void ping_pong(void)
{
    for (int i = 0; i < repeats; i++) {
        if (rank == 0) {
            MPI_Send(&out, 8, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(&in, 8, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&in, 8, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&out, 8, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        }
    }
}

static void receive_by_testing(int from)
{
    MPI_Request request;
    int here = 0;
    MPI_Irecv(&in, 8, MPI_CHAR, from, 0, MPI_COMM_WORLD, &request);
    while (!here)
        MPI_Test(&request, &here, MPI_STATUS_IGNORE);
}

static void tested_ping_pong(void)
{
    for (int i = 0; i < repeats; i++) {
        if (rank == 1)
            receive_by_testing(0);
        MPI_Send(&out, 8, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD);
        if (rank == 0)
            receive_by_testing(1);
    }
}

/* Tests while no message arrives. */
static void tests_in_vain(void)
{
    MPI_Request request;
    int here = 0;
    MPI_Irecv(&in, 8, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, &request);
    for (int i = 0; i < repeats; i++)
        MPI_Test(&request, &here, MPI_STATUS_IGNORE);
    MPI_Send(&out, 8, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD);
    if (!here)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void allreduce(void)
{
    for (int i = 0; i < repeats; i++)
        MPI_Allreduce(&out, &in, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}

static void waitall(void)
{
    for (int i = 0; i < repeats; i++) {
        MPI_Request requests[2];
        MPI_Irecv(&in, 8, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&out, 8, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

static void one_call(void)
{
    for (int i = 0; i < repeats; i++)
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
}

static void measure(const char *name, void (*function)(void), double operations)
{
    double least = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        function();
        const double took = (MPI_Wtime() - start) / repeats / operations * 1e9;
        least = took < least ? took : least;
    }
    if (rank == 0)
        printf("%s %.1f\n", name, least);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    repeats = argc > 1 ? atoi(argv[1]) : 1000;
    measure("call", one_call, 1);
    measure("ping-pong", ping_pong, 2);
    measure("tested-ping-pong", tested_ping_pong, 2);
    measure("test", tests_in_vain, 1);
    measure("allreduce", allreduce, 1);
    measure("waitall", waitall, 1);
    MPI_Finalize();
    return 0;
}
