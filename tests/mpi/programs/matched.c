/* SPDX-License-Identifier: Apache-2.0 */
/* Large messages that a matched probe holds while their receiver computes: until the message is
 * received, the sender stays in its MPI_Send and cannot come to a cut.
 *
 *     matched ROUNDS
 */
#include "check.h"

#include <stdlib.h>
#include <unistd.h>

#define LARGE 300000

static int out[LARGE], in[LARGE];

static void send(int round)
{
    for (int i = 0; i < LARGE; i++)
        out[i] = round * 7 + i;
    OK(MPI_Send(out, LARGE, MPI_INT, 1, round, MPI_COMM_WORLD));
}

static void receive(int round)
{
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int count = -1, flag = 0;
    if (round % 2 == 0) {
        OK(MPI_Mprobe(0, round, MPI_COMM_WORLD, &message, &status));
    } else {
        while (!flag)
            OK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status));
    }
    usleep(3000);
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == LARGE && status.MPI_TAG == round);
    OK(MPI_Mrecv(in, count, MPI_INT, &message, &status));
    for (int i = 0; i < LARGE; i++)
        CHECK(in[i] == round * 7 + i);
}

int main(int argc, char **argv)
{
    int rank;
    unsigned long long sum = 14695981039346656037ULL;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    CHECK(argc == 2);
    for (int round = 0; round < atoi(argv[1]); round++) {
        if (rank == 0)
            send(round);
        else
            receive(round);
        sum = mix(sum, in, sizeof(in));
    }
    wait_to_end();
    printf("%d: %016llX\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
