// SPDX-License-Identifier: Apache-2.0
// POSIX timers for a thread that has ended: they are there, with the time that is left and their
// intervals, and their signals go nowhere.
#include "probe.h"

enum { LONG = 1000000, SLACK = 3600, INTERVAL = 33, COUNT = 2 };

static timer_t timers[COUNT];

static void *worker(void *unused)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 5};
    event._sigev_un._tid = gettid();
    for (int i = 0; i < COUNT; i++)
        PROBE_TRY(timer_create(i == 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME, &event, &timers[i]));
    return unused;
}

static volatile int signals;

static void on_signal(int number)
{
    signals += number != 0;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const struct sigaction action = {.sa_handler = on_signal};
    PROBE_TRY(sigaction(SIGRTMIN + 5, &action, NULL));
    pthread_t thread;
    PROBE_ZERO(pthread_create(&thread, NULL, worker, NULL));
    PROBE_ZERO(pthread_join(thread, NULL));
    const struct itimerspec far_off = {.it_value.tv_sec = LONG, .it_interval.tv_sec = INTERVAL};
    const struct itimerspec none = {0}, soon = {.it_value.tv_nsec = 1000};
    do {
        PROBE_TRY(timer_settime(timers[0], 0, &far_off, NULL));
        probe_ready();
        PROBE_SABOTAGE("time left", timer_settime(timers[0], 0, &none, NULL));
        PROBE_SABOTAGE("exists", timer_delete(timers[1]));
        struct itimerspec left;
        PROBE_TRY(timer_gettime(timers[0], &left));
        probe_within("time left", LONG - SLACK, LONG, left.it_value.tv_sec);
        probe_equal("interval", INTERVAL, left.it_interval.tv_sec);
        probe_equal("error of a timer that exists", 0,
                    timer_gettime(timers[1], &left) == 0 ? 0 : errno);
        probe_equal("time left of one that is off", 0, left.it_value.tv_sec);
        PROBE_TRY(timer_settime(timers[1], 0, &soon, NULL));
        do {
            PROBE_TRY(timer_gettime(timers[1], &left));
        } while (left.it_value.tv_nsec != 0);
        probe_equal("signals of a timer for nobody", 0, signals);
    } while (probe_more());
    return probe_pass();
}
