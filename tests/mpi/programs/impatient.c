/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that wait by testing, as fast as they can. A test must report at once that a request is
 * complete, however often it was tested in vain before. */
#include "ring.h"

#include <string.h>

#define LENGTH 100

static unsigned long long sum = 14695981039346656037ULL;

static void receive(int *data, int tag, MPI_Request *request)
{
    OK(MPI_Irecv(data, LENGTH, MPI_INT, left, tag, MPI_COMM_WORLD, request));
}

static void send(int round, int tag)
{
    int data[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        data[i] = rank * 1000003 + round * 101 + tag * 17 + i;
    OK(MPI_Send(data, LENGTH, MPI_INT, right, tag, MPI_COMM_WORLD));
}

static void take(const int *data, int round, int tag)
{
    CHECK(data[0] == left * 1000003 + round * 101 + tag * 17);
    sum = mix(sum, data, LENGTH * sizeof(*data));
}

static void one(int round)
{
    int data[LENGTH], here = 0;
    MPI_Request request;
    MPI_Status status;
    receive(data, 1, &request);
    if (rank != 0)
        while (!here)
            OK(MPI_Test(&request, &here, &status));
    send(round, 1);
    while (!here)
        OK(MPI_Test(&request, &here, &status));
    CHECK(request == MPI_REQUEST_NULL && status.MPI_TAG == 1 && status.MPI_SOURCE == left);
    OK(MPI_Test(&request, &here, &status));
    CHECK(here && status.MPI_SOURCE == MPI_ANY_SOURCE);
    take(data, round, 1);
}

static void any(int round)
{
    int data[3][LENGTH], here = 0, index;
    MPI_Request requests[4] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL,
                               MPI_REQUEST_NULL};
    for (int i = 0; i < 3; i++)
        receive(data[i], 2 + i, &requests[i]);
    for (int over = 0; over < 3; over++) {
        if (rank == 0)
            send(round, 2 + over);
        for (here = 0; !here;)
            OK(MPI_Testany(4, requests, &index, &here, MPI_STATUS_IGNORE));
        CHECK(index == over && requests[index] == MPI_REQUEST_NULL);
        take(data[index], round, 2 + index);
        if (rank != 0)
            send(round, 2 + over);
    }
    OK(MPI_Testany(4, requests, &index, &here, MPI_STATUS_IGNORE));
    CHECK(here && index == MPI_UNDEFINED);
}

/* The first of two completes long before the second. */
static void all(int round)
{
    int data[2][LENGTH], here = 0;
    MPI_Request requests[2];
    for (int i = 0; i < 2; i++)
        receive(data[i], 5 + i, &requests[i]);
    send(round, 5);
    for (int i = 0; i < 50 && !here; i++)
        OK(MPI_Testall(2, requests, &here, MPI_STATUSES_IGNORE));
    CHECK(rank != 0 || !here);
    if (rank == 0)
        send(round, 6);
    while (!here)
        OK(MPI_Testall(2, requests, &here, MPI_STATUSES_IGNORE));
    if (rank != 0)
        send(round, 6);
    for (int i = 0; i < 2; i++) {
        CHECK(requests[i] == MPI_REQUEST_NULL);
        take(data[i], round, 5 + i);
    }
}

/* A persistent request keeps its handle. After a wait, the request that is tested is inactive. */
static void again(int round, MPI_Request *request, const int *data)
{
    int here = 0;
    MPI_Status status;
    OK(MPI_Start(request));
    for (int i = 0; i < 50; i++)
        OK(MPI_Test(request, &here, &status));
    CHECK(!here); /* the left one sends after this barrier */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    send(round, 7);
    if (round % 2)
        OK(MPI_Wait(request, &status));
    while (!(round % 2) && !here)
        OK(MPI_Test(request, &here, &status));
    CHECK(status.MPI_TAG == 7);
    OK(MPI_Test(request, &here, &status));
    CHECK(here && status.MPI_TAG == MPI_ANY_TAG);
    take(data, round, 7);
}

/* One tag after the other: the arrival of one tag's message says nothing about the others. */
static void probe(int round)
{
    int data[LENGTH], here = 0;
    MPI_Status status;
    if (rank == 0)
        send(round, 8);
    for (int tag = 8; tag < 10; tag++) {
        for (here = 0; !here;)
            OK(MPI_Iprobe(left, tag, MPI_COMM_WORLD, &here, &status));
        CHECK(status.MPI_SOURCE == left && status.MPI_TAG == tag);
        OK(MPI_Recv(data, LENGTH, MPI_INT, left, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        take(data, round, tag);
        if (rank != 0 || tag == 8)
            send(round, rank != 0 ? tag : tag + 1);
        OK(MPI_Iprobe(left, 10, MPI_COMM_WORLD, &here, &status));
        CHECK(!here);
    }
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 200;
    int data[LENGTH];
    MPI_Request persistent;
    begin_ring(&argc, &argv);
    OK(MPI_Recv_init(data, LENGTH, MPI_INT, left, 7, MPI_COMM_WORLD, &persistent));
    for (int round = 0; round < rounds; round++) {
        one(round);
        any(round);
        all(round);
        again(round, &persistent, data);
        probe(round);
    }
    OK(MPI_Request_free(&persistent));
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
