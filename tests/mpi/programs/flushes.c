/* SPDX-License-Identifier: Apache-2.0 */
/* Holds shared locks of a window, with operations in flight, while it computes: a checkpoint must
 * flush them, which needs the participation of the other ranks.
 *
 *     flushes ROUNDS
 */
#include "check.h"

#include <time.h>

#define COUNT 4000
#define SLOTS 8

static void compute(int milliseconds)
{
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += milliseconds * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    int rank, ranks, *mine;
    static int out[COUNT], in[COUNT];
    unsigned long long sum = 14695981039346656037ULL;
    MPI_Win window;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    OK(MPI_Win_allocate(SLOTS * COUNT * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                        &mine, &window));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window));
    for (int i = 0; i < SLOTS * COUNT; i++)
        mine[i] = 0;
    OK(MPI_Win_unlock(rank, window));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < rounds; i++) {
        const int target = (rank + 1 + i % (ranks - 1)) % ranks;
        const MPI_Aint slot = (MPI_Aint)(rank % SLOTS) * COUNT;
        OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window));
        for (int j = 0; j < COUNT; j++)
            out[j] = i * rank + j;
        if (i % 2 == 0)
            OK(MPI_Put(out, COUNT, MPI_INT, target, slot, COUNT, MPI_INT, window));
        else
            OK(MPI_Accumulate(out, COUNT, MPI_INT, target, slot, COUNT, MPI_INT, MPI_SUM, window));
        compute((i * 7 + rank * 3) % 12);
        if (i % 3 == 0)
            OK(MPI_Win_flush_local(target, window));
        compute((i + rank) % 5);
        OK(MPI_Win_flush(target, window));
        OK(MPI_Get(in, COUNT, MPI_INT, target, slot, COUNT, MPI_INT, window));
        compute(rank);
        OK(MPI_Win_unlock(target, window));
        sum = mix(sum, in, sizeof in);
    }
    OK(MPI_Win_free(&window));
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
