// SPDX-License-Identifier: Apache-2.0
// Many timerfds with short intervals, which a thread reads as fast as it can, and thereby rearms:
// at any moment some of them are about to expire, some do, and some have just done so. None of them
// stops.
#include "probe.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/timerfd.h>

enum { NUMBER = 300, INTERVAL = 10000000, TRIES = 100000 };

// A timer that has just expired reads as zero for a moment, like a disarmed one.
static int is_set(int fd)
{
    struct itimerspec found;
    for (int i = 0; i < TRIES; i++) {
        PROBE_TRY(timerfd_gettime(fd, &found));
        if (found.it_value.tv_sec != 0 || found.it_value.tv_nsec != 0)
            return found.it_interval.tv_nsec == INTERVAL;
        sched_yield();
    }
    return 0;
}

static int timer[NUMBER];

static void *read_all(void *unused)
{
    uint64_t count;
    for (int i = 0;; i = (i + 1) % NUMBER) {
        if (read(timer[i], &count, sizeof count) < 0 && errno != EAGAIN)
            return unused;
    }
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    for (int i = 0; i < NUMBER; i++) {
        timer[i] = PROBE_TRY(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
        const struct itimerspec soon = {.it_value.tv_nsec = 1 + i * (INTERVAL / NUMBER),
                                        .it_interval.tv_nsec = INTERVAL};
        PROBE_TRY(timerfd_settime(timer[i], 0, &soon, NULL));
    }
    pthread_t reader;
    PROBE_TRY(pthread_create(&reader, NULL, read_all, NULL));
    do {
        probe_ready();
        const struct itimerspec none = {0},
                                again = {.it_value.tv_nsec = 1, .it_interval.tv_nsec = INTERVAL};
        PROBE_SABOTAGE("timers", timerfd_settime(timer[NUMBER / 2], 0, &none, NULL));
        int set = 0;
        for (int i = 0; i < NUMBER; i++)
            set += is_set(timer[i]);
        PROBE_TRY(timerfd_settime(timer[NUMBER / 2], 0, &again, NULL));
        probe_equal("timers", NUMBER, set);
    } while (probe_more());
    return probe_pass();
}
