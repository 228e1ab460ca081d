/* SPDX-License-Identifier: Apache-2.0 */
/* MPI_THREAD_MULTIPLE and windows whose memory the library allocates: over all ranks, over one, and
 * shared ones over one. Threads use them concurrently for as many rounds as the first argument
 * says; with 0 the program pauses twice between rounds (pause.h). Prints a checksum per rank. */
#include "check.h"
#include "pause.h"

#include <pthread.h>
#include <string.h>

#define THREADS 3

static int rank, size, rounds, first_round;
static MPI_Win all, own, alone;
static int *all_cells, *own_cells, *alone_cells;

struct job {
    int number;
    unsigned long long sum;
};

static void *work(void *data)
{
    struct job *job = data;
    const int right = (rank + 1) % size, one = 1, place = 4 + job->number;
    for (int round = first_round; round < first_round + rounds; round++) {
        int out = rank * 1000 + round, in = -1, before, copy = -1;
        OK(MPI_Fetch_and_op(&one, &before, MPI_INT, right, 1, MPI_SUM, all));
        OK(MPI_Put(&out, 1, MPI_INT, right, place, 1, MPI_INT, all));
        OK(MPI_Win_flush(right, all));
        if ((round + job->number) % 3 == 0)
            usleep(400);
        OK(MPI_Get(&in, 1, MPI_INT, right, place, 1, MPI_INT, all));
        OK(MPI_Accumulate(&out, 1, MPI_INT, 0, place, 1, MPI_INT, MPI_SUM, own));
        OK(MPI_Put(&out, 1, MPI_INT, 0, place, 1, MPI_INT, alone));
        OK(MPI_Win_flush_all(all));
        OK(MPI_Win_flush(0, own));
        OK(MPI_Get(&copy, 1, MPI_INT, 0, place, 1, MPI_INT, own));
        OK(MPI_Win_flush(0, own));
        OK(MPI_Win_flush(0, alone));
        CHECK(in == out && copy == own_cells[place] && alone_cells[place] == out);
        job->sum = mix(mix(job->sum, &in, sizeof(in)), &copy, sizeof(copy));
    }
    return NULL;
}

static int *base(MPI_Win win, MPI_Aint bytes)
{
    int flag = 0;
    int *value = NULL;
    MPI_Aint *told = NULL;
    OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &told, &flag));
    CHECK(flag && *told == bytes);
    OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag));
    CHECK(flag);
    return value;
}

/* Sizes that are no multiple of a page, or of each other. */
static MPI_Aint bytes(int who)
{
    return (MPI_Aint)sizeof(int) * (1024 * who + 37);
}

static void look(void)
{
    CHECK(base(all, bytes(rank)) == all_cells && base(own, bytes(1)) == own_cells);
    CHECK(base(alone, bytes(2)) == alone_cells);
    const int last = (int)(bytes(rank) / (MPI_Aint)sizeof(int)) - 1;
    CHECK(all_cells[last] == rank + 77 && own_cells[1024 + 36] == rank + 78);
}

static void go(int count, unsigned long long *sum)
{
    struct job jobs[THREADS];
    pthread_t threads[THREADS];
    rounds = count;
    look();
    for (int i = 0; i < THREADS; i++) {
        jobs[i].number = i;
        jobs[i].sum = *sum;
        CHECK(pthread_create(&threads[i], NULL, work, &jobs[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        *sum = mix(*sum, &jobs[i].sum, sizeof(jobs[i].sum));
    }
    first_round += count;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_sync(all));
    CHECK(all_cells[1] == first_round * THREADS);
    *sum = mix(*sum, all_cells, (size_t)bytes(rank));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    int provided;
    unsigned long long sum = 14695981039346656037ULL;
    const int wanted = argc > 1 ? atoi(argv[1]) : 60;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Win_allocate(bytes(rank), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &all_cells, &all));
    OK(MPI_Win_allocate(bytes(1), sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &own_cells, &own));
    OK(MPI_Win_allocate_shared(bytes(2), sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &alone_cells,
                               &alone));
    memset(all_cells, 0, (size_t)bytes(rank));
    memset(own_cells, 0, (size_t)bytes(1));
    memset(alone_cells, 0, (size_t)bytes(2));
    all_cells[bytes(rank) / (MPI_Aint)sizeof(int) - 1] = rank + 77;
    own_cells[1024 + 36] = rank + 78;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, all));
    OK(MPI_Win_lock_all(0, own));
    OK(MPI_Win_lock_all(0, alone));
    for (int part = 0; part < 3; part++) {
        go(wanted > 0 ? wanted / 3 : 20, &sum);
        if (wanted == 0 && part < 2)
            wait_here(rank);
    }
    OK(MPI_Win_unlock_all(alone));
    OK(MPI_Win_unlock_all(own));
    OK(MPI_Win_unlock_all(all));
    OK(MPI_Win_free(&alone));
    OK(MPI_Win_free(&own));
    OK(MPI_Win_free(&all));
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
