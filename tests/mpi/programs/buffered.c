/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that their sender does not wait for: buffered ones, and those whose requests are freed,
 * or cancelled too late. The program computes while they are in flight, on both sides, and the
 * library can send the larger ones only with the sender's help: also at a cut, where only the
 * receiver knows of them.
 *
 *     buffered ROUNDS [one_way]
 *
 * One way: only the first rank sends, so it has nothing to wait for at a cut.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGEST (16 << 20)
#define KINDS 5

static int sizes[] = {1, 5000, 70000, 1 << 20};
static char out[LARGEST], in[LARGEST];
static MPI_Request late = MPI_REQUEST_NULL; /* to be cancelled once it is too late */

static void compute(int round, int rank)
{
    usleep((useconds_t)((round * 7 + rank * 3) % 10) * 1000);
}

static void send_unattended(int round, int to)
{
    const int size = sizes[round % 4];
    MPI_Request request;
    memset(out, round + 1, (size_t)size);
    switch (round / 4 % KINDS) {
    case 0:
        OK(MPI_Bsend(out, size, MPI_CHAR, to, round, MPI_COMM_WORLD));
        break;
    case 1:
        OK(MPI_Ibsend(out, size, MPI_CHAR, to, round, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case 2:
        OK(MPI_Bsend_init(out, size, MPI_CHAR, to, round, MPI_COMM_WORLD, &request));
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Request_free(&request));
        break;
    case 3:
        OK(MPI_Isend(out, size, MPI_CHAR, to, round, MPI_COMM_WORLD, &late));
        return;
    default:
        OK(MPI_Isend(out, size, MPI_CHAR, to, round, MPI_COMM_WORLD, &request));
        OK(MPI_Request_free(&request));
        return; /* the message itself is still in `out` */
    }
    memset(out, 0, (size_t)size);
}

int main(int argc, char **argv)
{
    int rank, ranks, size;
    unsigned long long sum = 14695981039346656037ULL;
    const int rounds = argc > 1 ? atoi(argv[1]) : 160;
    const int one_way = argc > 2;
    if (one_way)
        sizes[3] = LARGEST; /* more than the network takes at once */
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    const int room = 2 * (sizes[3] + MPI_BSEND_OVERHEAD);
    char *buffer = malloc((size_t)room), *given;
    OK(MPI_Buffer_attach(buffer, room));
    for (int i = 0; i < rounds; i++) {
        const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
        MPI_Status status;
        const int what = one_way ? 3 : i; /* a large one, buffered */
        if (!one_way || rank == 0)
            send_unattended(what, right);
        compute(i, rank);
        if (!one_way || rank == 1) {
            OK(MPI_Recv(in, LARGEST, MPI_CHAR, left, what, MPI_COMM_WORLD, &status));
            OK(MPI_Get_count(&status, MPI_CHAR, &size));
            CHECK(size == sizes[what % 4]);
            for (int k = 0; k < size; k++)
                CHECK(in[k] == (char)(what + 1));
            sum = mix(sum, in, (size_t)size);
        }
        if (late != MPI_REQUEST_NULL) { /* the neighbour needs its reply to continue */
            int cancelled = 1;
            OK(MPI_Cancel(&late));
            OK(MPI_Wait(&late, &status));
            OK(MPI_Test_cancelled(&status, &cancelled));
            CHECK(!cancelled);
        }
        /* From here on `out` may be written again. */
        OK(MPI_Sendrecv(NULL, 0, MPI_CHAR, left, rounds, NULL, 0, MPI_CHAR, right, rounds,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (i % 16 == 7) { /* all buffered messages have been sent */
            OK(MPI_Buffer_detach(&given, &size));
            CHECK(given == buffer && size == room);
            OK(MPI_Buffer_attach(buffer, room));
        }
    }
    OK(MPI_Buffer_detach(&given, &size));
    CHECK(given == buffer && size == room);
    free(buffer);
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
