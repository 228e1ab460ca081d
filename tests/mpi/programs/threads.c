/* SPDX-License-Identifier: Apache-2.0 */
/* MPI_THREAD_MULTIPLE: threads that come and go, each with its own traffic, thread-local data
 * checked around every call. Beside them one thread cancels receives that another waits for, while
 * older receives are pending. */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define THREADS 4
#define GENERATIONS 6
#define MESSAGES 200
#define CANCELS 20
#define OLDER 2
enum { OLDER_TAG = 1000, TAG_OF_NOBODY = 2000 };

static int rank, size;
static __thread int own; /* must survive every switch between program and library */

static void multiply(void *in, void *inout, int *count, MPI_Datatype *type)
{
    CHECK(*type == MPI_INT && own != 0);
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] *= ((int *)in)[i];
}

struct job {
    int number;
    MPI_Comm comm;
    MPI_Op op;
    long result;
};

static void *work(void *data)
{
    struct job *job = data;
    own = job->number + 1;
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Request requests[2];
        int out = rank * 1000 + i, in = -1, product = 2, all = 0;
        errno = job->number;
        OK(MPI_Irecv(&in, 1, MPI_INT, left, job->number, job->comm, &requests[0]));
        OK(MPI_Isend(&out, 1, MPI_INT, right, job->number, job->comm, &requests[1]));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK(in == left * 1000 + i);
        if (i % 20 == 0) {
            OK(MPI_Allreduce(&product, &all, 1, MPI_INT, job->op, job->comm));
            CHECK(all == 1 << size);
        }
        CHECK(own == job->number + 1 && errno == job->number);
        job->result += in;
    }
    return NULL;
}

static MPI_Request in_vain;
static atomic_int posted;

static void *wait_in_vain(void *data)
{
    (void)data;
    for (int i = 1; i <= CANCELS; i++) {
        int nothing = -1, cancelled = 0;
        MPI_Status status;
        OK(MPI_Irecv(&nothing, 1, MPI_INT, rank, TAG_OF_NOBODY, MPI_COMM_WORLD, &in_vain));
        posted = i;
        OK(MPI_Wait(&in_vain, &status));
        OK(MPI_Test_cancelled(&status, &cancelled));
        CHECK(cancelled && nothing == -1);
    }
    return NULL;
}

static void cancel_all(void)
{
    pthread_t thread;
    posted = 0;
    CHECK(pthread_create(&thread, NULL, wait_in_vain, NULL) == 0);
    for (int i = 1; i <= CANCELS; i++) {
        while (posted < i)
            sched_yield();
        OK(MPI_Cancel(&in_vain));
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv)
{
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    own = 100;
    struct job jobs[THREADS] = {{0}};
    MPI_Op op;
    OK(MPI_Op_create(multiply, 1, &op));
    for (int i = 0; i < THREADS; i++) {
        jobs[i].number = i;
        jobs[i].op = op;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &jobs[i].comm));
    }
    MPI_Request older[OLDER];
    int late[OLDER] = {-1, -1};
    for (int i = 0; i < OLDER; i++)
        OK(MPI_Irecv(&late[i], 1, MPI_INT, rank, OLDER_TAG + i, MPI_COMM_WORLD, &older[i]));
    long sum = 0;
    for (int generation = 0; generation < GENERATIONS; generation++) {
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, work, &jobs[i]) == 0);
        cancel_all();
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    for (int i = 0; i < OLDER; i++)
        OK(MPI_Send(&i, 1, MPI_INT, rank, OLDER_TAG + i, MPI_COMM_WORLD));
    OK(MPI_Waitall(OLDER, older, MPI_STATUSES_IGNORE));
    CHECK(late[0] == 0 && late[1] == 1);
    for (int i = 0; i < THREADS; i++) {
        sum += jobs[i].result;
        OK(MPI_Comm_free(&jobs[i].comm));
    }
    OK(MPI_Op_free(&op));
    CHECK(own == 100);
    printf("%d: %ld\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
