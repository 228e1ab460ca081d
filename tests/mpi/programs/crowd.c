/* SPDX-License-Identifier: Apache-2.0 */
/* MPI_THREAD_MULTIPLE: while some threads complete many receives at once, others wait for late
 * messages, and one is inside a collective that the other rank has not entered. So a requested
 * checkpoint finds threads that report what they wait for, while others have learnt from the
 * library that a receive is complete but have not recorded it yet. */
#include "check.h"

#include <pthread.h>
#include <sched.h>

#define ROUNDS 100
#define MANY 60

static int rank, size, right, left;

struct job {
    int number;
    MPI_Comm comm;
    long result;
};

/* Many at once, alternating between Waitall, Waitsome and Waitany. */
static void *many(void *data)
{
    struct job *job = data;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Request in[MANY], out[MANY];
        int got[MANY], given[MANY], indices[MANY], left_over = MANY, done = 0;
        for (int j = 0; j < MANY; j++) {
            got[j] = -1;
            given[j] = (rank * ROUNDS + i) * MANY + j;
            OK(MPI_Irecv(&got[j], 1, MPI_INT, left, j, job->comm, &in[j]));
        }
        for (int j = 0; j < MANY; j++)
            OK(MPI_Isend(&given[j], 1, MPI_INT, right, j, job->comm, &out[j]));
        switch (i % 3) {
        case 0:
            OK(MPI_Waitall(MANY, in, MPI_STATUSES_IGNORE));
            break;
        case 1:
            while (left_over > 0) {
                OK(MPI_Waitsome(MANY, in, &done, indices, MPI_STATUSES_IGNORE));
                CHECK(done != MPI_UNDEFINED);
                left_over -= done;
            }
            break;
        default:
            for (int j = 0; j < MANY; j++) {
                OK(MPI_Waitany(MANY, in, &done, MPI_STATUS_IGNORE));
                CHECK(done != MPI_UNDEFINED);
            }
        }
        OK(MPI_Waitall(MANY, out, MPI_STATUSES_IGNORE));
        for (int j = 0; j < MANY; j++) {
            CHECK(got[j] == (left * ROUNDS + i) * MANY + j);
            job->result += got[j];
        }
    }
    return NULL;
}

/* Waits for messages that the other rank sends late. */
static void *late(void *data)
{
    struct job *job = data;
    for (int i = 0; i < ROUNDS; i++) {
        int in = -1, out = rank * ROUNDS + i;
        if (rank == 0) {
            for (int j = 0; j < 50; j++)
                sched_yield();
            OK(MPI_Send(&out, 1, MPI_INT, right, 0, job->comm));
        }
        OK(MPI_Recv(&in, 1, MPI_INT, left, 0, job->comm, MPI_STATUS_IGNORE));
        if (rank != 0)
            OK(MPI_Send(&out, 1, MPI_INT, right, 0, job->comm));
        CHECK(in == left * ROUNDS + i);
        job->result += in;
    }
    return NULL;
}

/* Inside a collective most of the time. */
static void *apart(void *data)
{
    struct job *job = data;
    for (int i = 0; i < ROUNDS; i++) {
        int in = i, out = 0;
        for (int j = 0; rank == i % size && j < 50; j++)
            sched_yield();
        OK(MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, job->comm));
        CHECK(out == i * size);
        job->result += out;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    void *(*const work[])(void *) = {many, many, late, apart};
    enum { THREADS = sizeof(work) / sizeof(work[0]) };
    struct job jobs[THREADS] = {{0}};
    pthread_t threads[THREADS];
    long sum = 0;
    for (int i = 0; i < THREADS; i++) {
        jobs[i].number = i;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &jobs[i].comm));
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work[i], &jobs[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        sum += jobs[i].result;
        OK(MPI_Comm_free(&jobs[i].comm));
    }
    printf("%d: %ld\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
