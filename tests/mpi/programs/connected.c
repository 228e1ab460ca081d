/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two ranks over a communicator of MPI_Comm_connect and MPI_Comm_accept, and over
 * the one that it is merged into, neither of which is counted: matched probes, persistent requests,
 * and a receive that is cancelled.
 */
#include "check.h"

enum { STARTS = 2 };

static int rank;
static unsigned long long sum = 14695981039346656037ULL;

static void add(int value)
{
    sum = mix(sum, &value, sizeof(value));
}

static void matched(MPI_Comm comm, int other, int value)
{
    MPI_Request sent[2], received;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int in[2] = {-1, -1}, flag = 0;
    const int out[2] = {value, value + 1};
    for (int i = 0; i < 2; i++)
        OK(MPI_Isend(&out[i], 1, MPI_INT, other, 10 + i, comm, &sent[i]));
    OK(MPI_Mprobe(MPI_ANY_SOURCE, 10, comm, &message, &status));
    CHECK(status.MPI_SOURCE == other && message != MPI_MESSAGE_NULL);
    OK(MPI_Mrecv(&in[0], 1, MPI_INT, &message, &status));
    CHECK(status.MPI_TAG == 10 && message == MPI_MESSAGE_NULL);
    while (!flag)
        OK(MPI_Improbe(other, MPI_ANY_TAG, comm, &flag, &message, &status));
    OK(MPI_Imrecv(&in[1], 1, MPI_INT, &message, &received));
    OK(MPI_Wait(&received, &status));
    CHECK(status.MPI_SOURCE == other && status.MPI_TAG == 11);
    OK(MPI_Waitall(2, sent, MPI_STATUSES_IGNORE));
    add(in[0]);
    add(in[1]);
}

static void persistent(MPI_Comm comm, int other, int value)
{
    MPI_Request requests[2], never;
    int out = -1, in = -1, count = -1;
    OK(MPI_Send_init(&out, 1, MPI_INT, other, 12, comm, &requests[0]));
    OK(MPI_Recv_init(&in, 1, MPI_INT, other, 12, comm, &requests[1]));
    OK(MPI_Recv_init(&in, 1, MPI_INT, other, 13, comm, &never));
    for (int i = 0; i < STARTS; i++) {
        MPI_Status statuses[2];
        out = value + 100 * i;
        in = -1;
        if (i == 0) {
            OK(MPI_Start(&requests[1]));
            OK(MPI_Start(&requests[0]));
            OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
            OK(MPI_Wait(&requests[1], &statuses[1]));
        } else {
            OK(MPI_Startall(2, requests));
            OK(MPI_Waitall(2, requests, statuses));
        }
        OK(MPI_Get_count(&statuses[1], MPI_INT, &count));
        CHECK(count == 1 && statuses[1].MPI_SOURCE == other && statuses[1].MPI_TAG == 12);
        CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL);
        add(in);
    }
    OK(MPI_Request_free(&never));
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    CHECK(requests[0] == MPI_REQUEST_NULL);
}

static void cancelled(MPI_Comm comm, int other)
{
    MPI_Request request;
    MPI_Status status;
    int in = -1, is_cancelled = 0;
    OK(MPI_Irecv(&in, 1, MPI_INT, other, 14, comm, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &is_cancelled));
    CHECK(is_cancelled && in == -1);
}

static void all(MPI_Comm comm, int other, int value)
{
    matched(comm, other, value);
    persistent(comm, other, value + 50);
    cancelled(comm, other);
}

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm between, merged;
    int size, number = -1;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(size == 2);
    if (rank == 0) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        OK(MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 1, 1, MPI_COMM_WORLD));
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &between));
    } else {
        OK(MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &between));
    }
    all(between, 0, 1000 * rank);
    OK(MPI_Intercomm_merge(between, rank, &merged));
    OK(MPI_Comm_rank(merged, &number));
    CHECK(number == rank);
    all(merged, 1 - rank, 1000 * rank + 500);
    OK(MPI_Comm_free(&merged));
    OK(MPI_Comm_disconnect(&between));
    if (rank == 0)
        OK(MPI_Close_port(port));
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
