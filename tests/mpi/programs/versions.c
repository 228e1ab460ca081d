/* SPDX-License-Identifier: Apache-2.0 */
/* A program that decides itself when it is saved, with messages on both sides of the calls.
 *
 *     versions STEPS EVERY [ask]
 *
 * Every EVERY steps MPI_Ckpt() is called, or, with `ask`, one rank calls global_ckpt(). With
 * VERSIONS_MUST in the environment each call must do what it promises.
 */
#include "check.h"

#include <cryo_ckpt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS 20000 /* large enough to need a rendezvous */

static int rank, size, must;
static unsigned long long sum;
static long out[WORDS], in[WORDS];

static void expect(const char *what, int got, int wanted)
{
    if (must && got != wanted) {
        fprintf(stderr, "rank %d: %s returned %d, not %d\n", rank, what, got, wanted);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

/* A version in the middle of a ring: every message is sent before it and received after it. */
static void around(int step, int saves)
{
    MPI_Request requests[2];
    for (int i = 0; i < WORDS; i++)
        out[i] = (long)step * size + rank + i;
    memset(in, 0, sizeof(in));
    OK(MPI_Irecv(in, WORDS, MPI_LONG, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(out, WORDS, MPI_LONG, (rank + 1) % size, 1, MPI_COMM_WORLD, &requests[1]));
    if (saves)
        expect("MPI_Ckpt", MPI_Ckpt(), CKPT_SAVED);
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    sum = mix(sum, in, sizeof(in));
}

/* Before its call, rank 0 waits for a message that rank 1 sends after its own call. */
static void backward(int step)
{
    long value = step;
    if (rank == 0) {
        OK(MPI_Recv(&value, 1, MPI_LONG, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        expect("MPI_Ckpt", MPI_Ckpt(), CKPT_SAVED);
    } else {
        expect("MPI_Ckpt across a message", MPI_Ckpt(), rank == 1 ? CKPT_STRADDLED : CKPT_SAVED);
        if (rank == 1)
            OK(MPI_Send(&value, 1, MPI_LONG, 0, 2, MPI_COMM_WORLD));
    }
    sum = mix(sum, &value, sizeof(value));
}

int main(int argc, char **argv)
{
    const int steps = atoi(argv[1]), every = atoi(argv[2]);
    const int asks = argc > 3;
    must = getenv("VERSIONS_MUST") != NULL;
    expect("MPI_Ckpt before MPI_Init", MPI_Ckpt(), CKPT_NOT_COVERED);
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    if (!asks) /* immediately: the daemons may not know all ranks yet */
        expect("MPI_Ckpt after MPI_Init", MPI_Ckpt(), CKPT_SAVED);
    for (int step = 1; step <= steps; step++) {
        const int now = step % every == 0;
        around(step, now && !asks);
        if (now && asks && rank == step % size)
            expect("global_ckpt", global_ckpt(), CKPT_SAVED);
        if (step % every == every / 2 && !asks)
            backward(step);
        usleep(1000);
    }
    if (rank == 0)
        printf("# restarts %d\n", ckpt_restarts());
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
