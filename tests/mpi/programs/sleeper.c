/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeps outside MPI in every way that a signal could end, while it is saved: no sleep ends early,
 * or with an error. A second thread, which never calls MPI, sleeps as well. The argument is the
 * length of each sleep, in milliseconds. */
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

static int milliseconds, set;

static struct timespec duration(void)
{
    return (struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000L};
}

static int by_nanosleep(void)
{
    const struct timespec time = duration();
    return nanosleep(&time, NULL);
}

static int by_clock(void)
{
    const struct timespec time = duration();
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static int by_usleep(void)
{
    return usleep((unsigned)milliseconds * 1000U);
}

static int by_poll(void)
{
    return poll(NULL, 0, milliseconds);
}

static int by_select(void)
{
    const struct timespec time = duration();
    return select(0, NULL, NULL, NULL, &(struct timeval){time.tv_sec, time.tv_nsec / 1000});
}

static int by_epoll(void)
{
    struct epoll_event event;
    return epoll_wait(set, &event, 1, milliseconds);
}

static int (*const ways[])(void) = {by_nanosleep, by_clock,  by_usleep,
                                    by_poll,      by_select, by_epoll};
#define WAYS ((int)(sizeof(ways) / sizeof(ways[0])))

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void *sleep_in_all_ways(void *rounds)
{
    for (int i = 0; i < *(int *)rounds * WAYS; i++) {
        const double begun = now();
        CHECK(ways[i % WAYS]() == 0);
        /* A clock of another boot, or a coarse timer, may differ a little. */
        CHECK(now() - begun > milliseconds - 2);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int rank, rounds = 2;
    unsigned long long sum = 14695981039346656037ULL;
    pthread_t beside;
    milliseconds = argc > 1 ? atoi(argv[1]) : 150;
    set = epoll_create1(0);
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    CHECK(pthread_create(&beside, NULL, sleep_in_all_ways, &rounds) == 0);
    sleep_in_all_ways(&rounds);
    CHECK(pthread_join(beside, NULL) == 0);
    int sum_of_ranks = 0;
    OK(MPI_Allreduce(&rank, &sum_of_ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    wait_to_end();
    printf("%d: %016llx\n", rank, mix(sum, &sum_of_ranks, sizeof(sum_of_ranks)));
    OK(MPI_Finalize());
    return 0;
}
