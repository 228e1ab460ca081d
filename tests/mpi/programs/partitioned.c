/* SPDX-License-Identifier: Apache-2.0 */
/* Partitioned messages, looked up by name because the headers may be older than MPI-4: between
 * neighbours in a ring, made ready in any order, beside ordinary messages with the same tags. If
 * Cryo implements them, because messages are counted, also cases in which Open MPI 5.0.7 fails:
 * other numbers of partitions at the two ends, a sender that waits for word that one partition has
 * arrived, several with the same tag, some that are freed before they are started, and none to
 * MPI_PROC_NULL.
 *
 *     partitioned ROUNDS
 */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define PARTS 12
#define EACH 50 /* elements in a partition */
#define ALL (PARTS * EACH)
#define THREADS 3

static int (*New_Psend_init)(const void *, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm,
                             MPI_Info, MPI_Request *);
static int (*New_Precv_init)(void *, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info,
                             MPI_Request *);
static int (*New_Pready)(int, MPI_Request);
static int (*New_Pready_range)(int, int, MPI_Request);
static int (*New_Pready_list)(int, const int[], MPI_Request);
static int (*New_Parrived)(MPI_Request, int, int *);

static int rank, size, left, right, counted, made;
static unsigned long long sum;
static MPI_Comm copy;
enum { SEND, RECEIVE, SEND_TOO, RECEIVE_TOO, NOBODY, SEVERAL };
static MPI_Request requests[SEVERAL];
static int out[ALL], out_too[ALL], in[ALL];
static int in_too[ALL];

static void *find(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    CHECK(found != NULL);
    return found;
}

static void find_all(void)
{
    New_Psend_init = find("MPI_Psend_init");
    New_Precv_init = find("MPI_Precv_init");
    New_Pready = find("MPI_Pready");
    New_Pready_range = find("MPI_Pready_range");
    New_Pready_list = find("MPI_Pready_list");
    New_Parrived = find("MPI_Parrived");
}

/* Two with the same tag on one communicator match in order. */
static void make(void)
{
    const int parts = counted ? PARTS / 3 : PARTS;
    OK(New_Psend_init(out, PARTS, EACH, MPI_INT, right, 3, copy, MPI_INFO_NULL, &requests[SEND]));
    OK(New_Precv_init(in, parts, ALL / parts, MPI_INT, left, 3, copy, MPI_INFO_NULL,
                      &requests[RECEIVE]));
    if (!counted)
        return;
    OK(New_Psend_init(out_too, PARTS, EACH / 2, MPI_2INT, right, 3, copy, MPI_INFO_NULL,
                      &requests[SEND_TOO]));
    OK(New_Precv_init(in_too, 2 * PARTS, EACH / 2, MPI_INT, left, 3, copy, MPI_INFO_NULL,
                      &requests[RECEIVE_TOO]));
    OK(New_Precv_init(in, 1, 1, MPI_INT, MPI_PROC_NULL, 3, copy, MPI_INFO_NULL, &requests[NOBODY]));
}

static void drop(void)
{
    for (int i = 0; i < made; i++)
        OK(MPI_Request_free(&requests[i]));
}

static void dawdle(int how_long)
{
    for (int i = 0; i < how_long; i++)
        sched_yield();
}

static void *make_ready(void *data)
{
    const int first = (int)(size_t)data;
    for (int i = first; i < PARTS; i += THREADS) {
        OK(New_Pready(i, requests[SEND]));
        dawdle(first);
    }
    return NULL;
}

static void by_threads(void)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, make_ready, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void by_one(int round)
{
    const int list[4] = {7, 1, 3, 0};
    OK(New_Pready_list(4, list, requests[SEND]));
    dawdle(round % 5);
    OK(New_Pready(2, requests[SEND]));
    OK(New_Pready_range(4, 6, requests[SEND]));
    /* The receiver reports that its first quarter has arrived before the rest is made ready. */
    int flag = 0, word = -1;
    while (!flag)
        OK(New_Parrived(requests[RECEIVE], 0, &flag));
    for (int i = 0; i < 3 * EACH; i++)
        CHECK(in[i] == left * 1000 + round + i);
    OK(MPI_Send(&round, 1, MPI_INT, left, 3, copy));
    OK(MPI_Recv(&word, 1, MPI_INT, right, 3, copy, MPI_STATUS_IGNORE));
    CHECK(word == round);
    OK(New_Pready_range(8, PARTS - 1, requests[SEND]));
}

static void one_round(int round, int threads)
{
    MPI_Status statuses[SEVERAL];
    int count = -1, flag = 0;
    for (int i = 0; i < ALL; i++) {
        out[i] = rank * 1000 + round + i;
        out_too[i] = -out[i];
        in[i] = -1;
    }
    memset(in_too, 0, sizeof(in_too));
    dawdle((rank + round) % 3 * 4);
    OK(MPI_Startall(made, requests));
    if (!counted)
        OK(New_Pready_range(0, PARTS - 1, requests[SEND]));
    else if (threads && round % 4 == 0)
        by_threads();
    else
        by_one(round);
    if (counted)
        OK(New_Pready_range(0, PARTS - 1, requests[SEND_TOO]));
    while (!flag && counted)
        OK(New_Parrived(requests[RECEIVE], 1, &flag));
    if (round % 2 == 0) {
        OK(MPI_Waitall(made, requests, statuses));
    } else {
        for (int i = made - 1; i >= 0; i--)
            OK(MPI_Wait(&requests[i], &statuses[i]));
    }
    OK(MPI_Get_count(&statuses[RECEIVE], MPI_INT, &count));
    CHECK(!counted ||
          (statuses[RECEIVE].MPI_SOURCE == left && statuses[RECEIVE].MPI_TAG == 3 && count == ALL));
    for (int i = 0; i < ALL; i++)
        CHECK(in[i] == left * 1000 + round + i && (!counted || in_too[i] == -in[i]));
    sum = mix(sum, in, sizeof(in));
}

int main(int argc, char **argv)
{
    int level = -1;
    find_all();
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(argc == 2);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    counted = getenv("CRYO_JOB") != NULL || getenv("CRYO_RANK_SOCKET") != NULL;
    made = counted ? SEVERAL : SEND_TOO;
    make();
    if (counted) { /* the next ones match each other, and not these */
        drop();
        make();
    }
    for (int round = 0; round < atoi(argv[1]); round++) {
        one_round(round, counted && level == MPI_THREAD_MULTIPLE);
        if (counted && round % 40 == 39) {
            drop();
            dawdle(rank * 10);
            make();
        }
    }
    drop();
    OK(MPI_Comm_free(&copy));
    wait_to_end();
    printf("%d: %016llX\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
