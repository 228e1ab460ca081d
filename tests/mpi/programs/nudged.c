/* SPDX-License-Identifier: Apache-2.0 */
/* An unexpected signal (SIGURG, with which Cryo's threads wake the thread that uses MPI) keeps
 * coming, wherever the rank is: most often it is inside the library. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

static atomic_int over;

static void *nudge(void *who)
{
    const struct timespec moment = {0, 50000};
    while (!over) {
        pthread_kill(*(pthread_t *)who, SIGURG);
        nanosleep(&moment, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 2000;
    int rank, size, given;
    long sum = 0;
    pthread_t thread, self = pthread_self();
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(pthread_create(&thread, NULL, nudge, &self) == 0);
    for (int round = 0; round < rounds; round++) {
        const long mine = rank + round;
        long all;
        OK(MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
        sum += all;
    }
    wait_to_end();
    over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    printf("%d: %016lx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
