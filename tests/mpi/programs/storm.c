/* SPDX-License-Identifier: Apache-2.0 */
/* MPI_THREAD_MULTIPLE: threads with their own messages, probes, collectives and sleeps, all at
 * once, for as many rounds as the first argument says. */
#include "check.h"

#include <pthread.h>
#include <unistd.h>

#define THREADS 3

static int rank, size, rounds;

struct job {
    int number;
    MPI_Comm comm;
    unsigned long long sum;
};

static void *work(void *data)
{
    struct job *job = data;
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int round = 0; round < rounds; round++) {
        MPI_Request requests[3];
        MPI_Message message;
        int out[2] = {rank * 1000 + round, job->number}, in[2], probed[2], all, early;
        OK(MPI_Irecv(in, 2, MPI_INT, left, 1, job->comm, &requests[0]));
        OK(MPI_Isend(out, 2, MPI_INT, right, 1, job->comm, &requests[1]));
        OK(MPI_Isend(out, 2, MPI_INT, left, 2, job->comm, &requests[2]));
        if ((round + job->number) % 3 == 0)
            usleep(400);
        OK(MPI_Mprobe(right, 2, job->comm, &message, MPI_STATUS_IGNORE));
        OK(MPI_Mrecv(probed, 2, MPI_INT, &message, MPI_STATUS_IGNORE));
        OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
        OK(MPI_Send(&round, 1, MPI_INT, right, 3, job->comm));
        if (job->number == 0)
            OK(MPI_Allreduce(&out[0], &all, 1, MPI_INT, MPI_SUM, job->comm));
        else
            OK(MPI_Scan(&out[0], &all, 1, MPI_INT, MPI_SUM, job->comm));
        OK(MPI_Recv(&early, 1, MPI_INT, left, 3, job->comm, MPI_STATUS_IGNORE));
        job->sum = mix(mix(job->sum, in, sizeof(in)), probed, sizeof(probed));
        job->sum = mix(mix(job->sum, &all, sizeof(all)), &early, sizeof(early));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    struct job jobs[THREADS];
    pthread_t threads[THREADS];
    unsigned long long sum = 14695981039346656037ULL;
    rounds = argc > 1 ? atoi(argv[1]) : 20;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    for (int i = 0; i < THREADS; i++) {
        jobs[i].number = i;
        jobs[i].sum = sum;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &jobs[i].comm));
        CHECK(pthread_create(&threads[i], NULL, work, &jobs[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        sum = mix(sum, &jobs[i].sum, sizeof(jobs[i].sum));
        OK(MPI_Comm_free(&jobs[i].comm));
    }
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
