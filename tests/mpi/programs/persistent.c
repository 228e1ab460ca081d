/* SPDX-License-Identifier: Apache-2.0 */
/* Persistent collectives: inactive and active ones, started in a different order at each rank, with
 * types and operations that are freed (not natively: Open MPI 4.1 does not retain them), and
 * themselves freed early at some ranks and late at others.
 *
 *     persistent ROUNDS
 */
#include "check.h"
#include "witness.h"

#include <dlfcn.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>

#define MOST 16
enum { REDUCED, ROTATED, EVERYBODY, MET, GATHERED, SEVERAL };

static int rank, size;
static unsigned long long sum;
static MPI_Comm copy, turned;
static int in[2], out[2], word, to[MOST], from[MOST], lengths[MOST], places[MOST], all[MOST];
static MPI_Datatype types[MOST];
static MPI_Request requests[SEVERAL];

/* Open MPI 5.0 and MPICH have them without the X. */
#ifdef OPEN_MPI
#define TYPE(name) __typeof__(&MPIX_##name)
#define IS_RIGHT 1
#else
#define TYPE(name) __typeof__(&MPI_##name)
/* MPICH 4.0.2 copies the root's own part of a gather when the request is made, and MPI_Waitany
 * returns inactive requests of this kind. */
#define IS_RIGHT 0
#endif
static TYPE(Allreduce_init) allreduce_init;
static TYPE(Alltoallw_init) alltoallw_init;
static TYPE(Barrier_init) barrier_init;
static TYPE(Bcast_init) bcast_init;
static TYPE(Gather_init) gather_init;

static void *find(const char *name)
{
    char other[100] = "MPIX";
    void *found = dlsym(RTLD_DEFAULT, name);
    snprintf(other, sizeof(other), "MPIX%s", name + 3);
    found = found != NULL ? found : dlsym(RTLD_DEFAULT, other);
    CHECK(found != NULL);
    return found;
}

static void find_all(void)
{
    allreduce_init = find("MPI_Allreduce_init");
    alltoallw_init = find("MPI_Alltoallw_init");
    barrier_init = find("MPI_Barrier_init");
    bcast_init = find("MPI_Bcast_init");
    gather_init = find("MPI_Gather_init");
}

static void dawdle(int how_long)
{
    for (int i = 0; i < how_long; i++)
        sched_yield();
}

static void add_pairs(void *from_here, void *here, int *count, MPI_Datatype *type)
{
    int *a = from_here, *b = here;
    for (int i = 0; i < *count; i++, a += 2, b += 2) {
        b[0] += a[0];
        b[1] += 3 * a[1];
    }
    (void)type;
}

static MPI_Datatype pair, number;
static MPI_Op operation;

static void drop(void)
{
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_free(&number));
    OK(MPI_Op_free(&operation));
    CHECK(operation == MPI_OP_NULL && number == MPI_DATATYPE_NULL);
}

static void make(int early)
{
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    OK(MPI_Type_create_resized(MPI_INT, 0, sizeof(int), &number));
    OK(MPI_Type_commit(&number));
    OK(MPI_Op_create(add_pairs, 1, &operation));
    for (int i = 0; i < size; i++) {
        lengths[i] = 1;
        places[i] = i * (int)sizeof(int);
        types[i] = number;
    }
    OK(allreduce_init(in, out, 1, pair, operation, MPI_COMM_WORLD, MPI_INFO_NULL,
                      &requests[REDUCED]));
    OK(bcast_init(&word, 1, number, 1, turned, MPI_INFO_NULL, &requests[ROTATED]));
    OK(alltoallw_init(to, lengths, places, types, from, lengths, places, types, copy, MPI_INFO_NULL,
                      &requests[EVERYBODY]));
    OK(barrier_init(copy, MPI_INFO_NULL, &requests[MET]));
    MPI_Datatype gathered = number;
#ifdef OPEN_MPI
    if (early && rank != 0) /* where it is not significant */
        gathered = (MPI_Datatype)(uintptr_t)0x10;
#else
    (void)early;
#endif
    OK(gather_init(&rank, 1, MPI_INT, all, 1, gathered, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[GATHERED]));
}

static void fill(int round)
{
    in[0] = rank + round;
    in[1] = rank == 0 ? round : 0;
    word = rank == size - 2 ? 7 * round : -1;
    for (int i = 0; i < size; i++) {
        to[i] = 100 * rank + i + round;
        from[i] = -1;
        all[i] = -1;
    }
}

static void compare(int round)
{
    CHECK(out[0] == size * (size - 1) / 2 + size * round);
    CHECK(word == 7 * round);
    for (int i = 0; i < size; i++) {
        CHECK(from[i] == 100 * i + rank + round);
        CHECK(rank != 0 || all[i] == i || (i == 0 && !IS_RIGHT));
    }
    sum = mix(sum, from, (size_t)size * sizeof(int));
    sum = mix(sum, &out[0], sizeof(out[0]));
}

/* Other collectives and messages while the persistent ones are active. */
static void between(int round)
{
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    int got = -1, best = -1;
    OK(MPI_Sendrecv(&round, 1, MPI_INT, right, 4, &got, 1, MPI_INT, left, 4, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    CHECK(got == round);
    OK(MPI_Allreduce(&rank, &best, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    CHECK(best == size - 1);
}

static void finish(int round)
{
    int index = 0, flag = 0;
    if (round % 3 == 0 || (round % 3 == 1 && !IS_RIGHT)) {
        OK(MPI_Waitall(SEVERAL, requests, MPI_STATUSES_IGNORE));
    } else if (round % 3 == 1) {
        for (int i = 0; i < SEVERAL; i++) {
            OK(MPI_Waitany(SEVERAL, requests, &index, MPI_STATUS_IGNORE));
            CHECK(index >= 0 && index < SEVERAL);
        }
        OK(MPI_Waitany(SEVERAL, requests, &index, MPI_STATUS_IGNORE));
        CHECK(index == MPI_UNDEFINED);
    } else {
        for (int i = 0; i < SEVERAL; i++) {
            for (flag = 0; !flag; sched_yield())
                OK(MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE));
        }
    }
}

/* A request that lives for one round at some ranks, and for two at others. */
static void short_lived(int round)
{
    static MPI_Request old = MPI_REQUEST_NULL;
    MPI_Request request;
    static int mine, least[2];
    mine = rank - round;
    OK(allreduce_init(&mine, &least[round % 2], 1, MPI_INT, MPI_MIN, copy, MPI_INFO_NULL,
                      &request));
    OK(MPI_Start(&request));
    if (old != MPI_REQUEST_NULL)
        OK(MPI_Request_free(&old));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(request != MPI_REQUEST_NULL && least[round % 2] == -round);
    if ((round + rank) % 2 == 0)
        OK(MPI_Request_free(&request));
    else
        old = request;
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(size > 1 && size <= MOST && argc == 2);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned));
    find_all();
    const int early = getenv("CRYO_JOB") != NULL || getenv("CRYO_RANK_SOCKET") != NULL;
    make(early);
    if (early)
        drop();
    for (int round = 0; round < atoi(argv[1]); round++) {
        bear_witness(rank);
        fill(round);
        dawdle((rank + round) % 4 * 5);
        for (int i = 0; i < SEVERAL; i++) {
            OK(MPI_Start(&requests[(rank + round) % 2 == 0 ? i : SEVERAL - 1 - i]));
            if (round % 5 == rank % 5)
                dawdle(3);
        }
        between(round);
        finish(round);
        compare(round);
        short_lived(round);
    }
    for (int i = 0; i < SEVERAL; i++)
        OK(MPI_Request_free(&requests[i]));
    if (!early)
        drop();
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free(&turned));
    wait_to_end();
    printf("%d: %016llX\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
