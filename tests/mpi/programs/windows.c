/* SPDX-License-Identifier: Apache-2.0 */
/* One-sided communication over windows of all kinds, with every way to synchronize, for as many
 * rounds as the first argument says; with 0 it pauses twice between rounds (pause.h). Prints a
 * checksum per rank. With `apart` as the second argument no ranks share memory, so that they may
 * move to different nodes. */
#include "pause.h"
#include "ring.h"
#include "witness.h"

#include <string.h>
#include <unistd.h>

#define CELLS 64
#define SPARSE (48 << 20) /* bytes of a window of which hardly any is touched */

static int keyval, errors;
static int near, near_size; /* among the ranks that share memory */
static unsigned long long sum = 14695981039346656037ULL;
static int created_cells[CELLS], dynamic_cells[CELLS], *allocated_cells, *shared_cells;
static MPI_Win created, allocated, shared, dynamic, sparse;
static char *sparse_bytes;
static MPI_Aint *dynamic_places;
static MPI_Group all, to_left, to_right;

static void count_error(MPI_Win *win, int *code, ...)
{
    (void)win;
    (void)code;
    errors++;
}

static void make(int apart)
{
    MPI_Info info;
    MPI_Comm half;
    MPI_Errhandler handler;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPI_Group_incl(all, 1, &left, &to_left));
    OK(MPI_Group_incl(all, 1, &right, &to_right));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "accumulate_ordering", "none"));
    OK(MPI_Win_create(created_cells, sizeof(created_cells), sizeof(int), info, MPI_COMM_WORLD,
                      &created));
    OK(MPI_Info_free(&info));
    OK(MPI_Win_allocate(CELLS * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                        &allocated_cells, &allocated));
    memset(allocated_cells, 0, CELLS * sizeof(int));
    /* Over a communicator that is freed before the window is used. */
    OK(MPI_Comm_split_type(apart ? MPI_COMM_SELF : MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0,
                           MPI_INFO_NULL, &half));
    OK(MPI_Comm_rank(half, &near));
    OK(MPI_Comm_size(half, &near_size));
    OK(MPI_Win_allocate_shared((CELLS + near) * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL,
                               half, &shared_cells, &shared));
    OK(MPI_Comm_free(&half));
    memset(shared_cells, 0, (size_t)(CELLS + near) * sizeof(int));
    OK(MPI_Win_allocate(SPARSE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &sparse_bytes, &sparse));
    sparse_bytes[SPARSE / 2] = 'a' + rank;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic));
    OK(MPI_Win_attach(dynamic, dynamic_cells, sizeof(dynamic_cells)));
    MPI_Aint place;
    OK(MPI_Get_address(dynamic_cells, &place));
    dynamic_places = malloc((size_t)size * sizeof(MPI_Aint));
    OK(MPI_Allgather(&place, 1, MPI_AINT, dynamic_places, 1, MPI_AINT, MPI_COMM_WORLD));
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &keyval, NULL));
    OK(MPI_Win_set_attr(created, keyval, &keyval));
    OK(MPI_Win_set_name(created, "cells"));
    OK(MPI_Win_create_errhandler(count_error, &handler));
    OK(MPI_Win_set_errhandler(created, handler));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Win_lock_all(0, dynamic));
}

static int number(MPI_Win win, int attribute)
{
    int flag = 0;
    void *value = NULL;
    OK(MPI_Win_get_attr(win, attribute, &value, &flag));
    CHECK(flag);
    return *(int *)value;
}

static void *base(MPI_Win win)
{
    int flag = 0;
    void *value = NULL;
    OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag));
    CHECK(flag);
    return value;
}

/* Of shared memory, this process has touched far less than the sparse window has. */
static void look_at_sparse(void)
{
    char line[200];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof(line), status) != NULL)
        sscanf(line, "RssShmem: %ld", &kib);
    fclose(status);
    CHECK(kib < SPARSE / 1024 / 2);
    CHECK(sparse_bytes[SPARSE / 2] == 'a' + rank);
    CHECK(base(sparse) == sparse_bytes);
}

static void look(void)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length, flag, *value;
    OK(MPI_Win_get_name(created, name, &length));
    CHECK(strcmp(name, "cells") == 0);
    OK(MPI_Win_get_attr(created, keyval, &value, &flag));
    CHECK(flag && value == &keyval);
    look_at_sparse();
    CHECK(number(created, MPI_WIN_CREATE_FLAVOR) == MPI_WIN_FLAVOR_CREATE);
    CHECK(number(allocated, MPI_WIN_CREATE_FLAVOR) == MPI_WIN_FLAVOR_ALLOCATE);
    CHECK(number(shared, MPI_WIN_CREATE_FLAVOR) == MPI_WIN_FLAVOR_SHARED);
    CHECK(number(dynamic, MPI_WIN_CREATE_FLAVOR) == MPI_WIN_FLAVOR_DYNAMIC);
    CHECK(number(allocated, MPI_WIN_DISP_UNIT) == sizeof(int));
    CHECK(base(created) == created_cells && base(allocated) == allocated_cells &&
          base(shared) == shared_cells);
    const int before = errors;
    MPI_Win_call_errhandler(created, MPI_ERR_OTHER);
    CHECK(errors == before + 1);
}

static void by_fence(int round)
{
    int out = rank * 100 + round, in = -1;
    OK(MPI_Win_fence(0, created));
    OK(MPI_Put(&out, 1, MPI_INT, right, 1, 1, MPI_INT, created));
    OK(MPI_Accumulate(&out, 1, MPI_INT, 0, 2, 1, MPI_INT, MPI_SUM, created));
    usleep(300);
    OK(MPI_Win_fence(0, created));
    OK(MPI_Get(&in, 1, MPI_INT, left, 1, 1, MPI_INT, created));
    OK(MPI_Win_fence(round % 2 == 0 ? MPI_MODE_NOSUCCEED : 0, created));
    sum = mix(mix(sum, &in, sizeof(in)), created_cells, sizeof(created_cells));
}

static void by_post(int round)
{
    int out = rank * 1000 + round, done = 0;
    OK(MPI_Win_post(to_left, 0, allocated));
    if (round % 3 == 0)
        usleep(300);
    OK(MPI_Win_start(to_right, 0, allocated));
    OK(MPI_Put(&out, 1, MPI_INT, right, 3, 1, MPI_INT, allocated));
    if (round % 3 == 1)
        usleep(300);
    OK(MPI_Win_complete(allocated));
    if (round % 2 == 0) {
        OK(MPI_Win_wait(allocated));
    } else {
        while (!done)
            OK(MPI_Win_test(allocated, &done));
    }
    sum = mix(sum, &allocated_cells[3], sizeof(int));
}

static void by_lock(int round)
{
    int one = round + rank, in, old;
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, allocated));
    OK(MPI_Get(&in, 1, MPI_INT, right, 5, 1, MPI_INT, allocated));
    OK(MPI_Win_flush(right, allocated));
    in = in * 3 + one;
    OK(MPI_Put(&in, 1, MPI_INT, right, 5, 1, MPI_INT, allocated));
    OK(MPI_Win_unlock(right, allocated));
    /* A rank that waits for an exclusive lock while another holds a shared one keeps a checkpoint
     * from its cut (docs/rank-engine.md, Windows): that is not tested here. */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, allocated));
    OK(MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 6, MPI_SUM, allocated));
    usleep(200);
    OK(MPI_Win_unlock(0, allocated));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, allocated));
    OK(MPI_Get(&old, 1, MPI_INT, 0, 6, 1, MPI_INT, allocated));
    OK(MPI_Win_unlock(0, allocated));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    sum = mix(mix(sum, &in, sizeof(in)), &old, sizeof(old));
}

/* Always under one lock_all epoch, and not always flushed. */
static void under_lock_all(int round)
{
    int out = rank + round, in, compare, swap = round + 1, old;
    MPI_Request request;
    OK(MPI_Rput(&out, 1, MPI_INT, right, dynamic_places[right] + 4 * (MPI_Aint)sizeof(int), 1,
                MPI_INT, dynamic, &request));
    usleep(200);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    usleep(200);
    OK(MPI_Win_flush_all(dynamic));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Rget(&in, 1, MPI_INT, left, dynamic_places[left] + 4 * (MPI_Aint)sizeof(int), 1, MPI_INT,
                dynamic, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    compare = round;
    OK(MPI_Compare_and_swap(&swap, &compare, &old, MPI_INT, right,
                            dynamic_places[right] + 7 * (MPI_Aint)sizeof(int), dynamic));
    OK(MPI_Win_flush(right, dynamic));
    OK(MPI_Win_flush(left, dynamic));
    CHECK(old == round);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    sum = mix(sum, &in, sizeof(in));
}

static void in_shared_memory(int round)
{
    MPI_Aint bytes;
    int unit, *theirs;
    const int next = (near + 1) % near_size;
    OK(MPI_Win_shared_query(shared, next, &bytes, &unit, &theirs));
    CHECK(bytes == (CELLS + next) * (MPI_Aint)sizeof(int) && unit == sizeof(int));
    OK(MPI_Win_fence(0, shared));
    theirs[9] = theirs[9] * 5 + rank + round;
    theirs[CELLS + next - 1]++;
    usleep(200);
    OK(MPI_Win_fence(0, shared));
    sum = mix(sum, shared_cells, (size_t)(CELLS + near) * sizeof(int));
}

static void go_round(int round)
{
    look();
    by_fence(round);
    by_post(round);
    by_lock(round);
    under_lock_all(round);
    in_shared_memory(round);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 20;
    begin_ring(&argc, &argv);
    make(argc > 2 && strcmp(argv[2], "apart") == 0);
    for (int round = 0; round < (rounds > 0 ? rounds : 3); round++) {
        bear_witness(rank);
        go_round(round);
        if (rounds == 0 && round < 2)
            wait_here(rank);
    }
    OK(MPI_Win_unlock_all(dynamic));
    OK(MPI_Win_free(&dynamic));
    OK(MPI_Win_free(&shared));
    OK(MPI_Win_free(&sparse));
    OK(MPI_Win_free(&allocated));
    OK(MPI_Win_free(&created));
    OK(MPI_Win_free_keyval(&keyval));
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&to_left));
    OK(MPI_Group_free(&to_right));
    free(dynamic_places);
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
