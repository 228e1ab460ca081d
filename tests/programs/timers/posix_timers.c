// SPDX-License-Identifier: Apache-2.0
// timer_create with SIGEV_SIGNAL, SIGEV_THREAD_ID and SIGEV_NONE: ids (one in between was deleted),
// time left, intervals, and the signals with their values.
#include "probe.h"

enum { LONG = 1000000, SLACK = 3600, COUNT = 4 };

static volatile int value;
static volatile pid_t thread_of_signal;

static void on_timer(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    thread_of_signal = gettid();
    value = info->si_value.sival_int;
}

static volatile int worker_tid, stop;

static void *worker(void *unused)
{
    worker_tid = gettid();
    probe_await("stop", &stop);
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sigaction action = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART};
    PROBE_TRY(sigaction(SIGRTMIN + 5, &action, NULL));
    pthread_t thread;
    PROBE_ZERO(pthread_create(&thread, NULL, worker, NULL));
    probe_await("thread", &worker_tid);

    timer_t timers[COUNT];
    struct sigevent events[COUNT] = {{.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 5},
                                     {.sigev_notify = SIGEV_NONE},
                                     {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 5},
                                     {.sigev_notify = SIGEV_NONE}};
    events[2]._sigev_un._tid = worker_tid;
    const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_REALTIME,
                                CLOCK_PROCESS_CPUTIME_ID};
    for (int i = 0; i < COUNT; i++) {
        timer_t gap;
        PROBE_TRY(timer_create(CLOCK_MONOTONIC, &events[1], &gap));
        events[i].sigev_value.sival_int = 100 + i;
        PROBE_TRY(timer_create(clocks[i], &events[i], &timers[i]));
        PROBE_TRY(timer_delete(gap));
    }
    const struct itimerspec far_off = {.it_value.tv_sec = LONG, .it_interval.tv_sec = 33};
    const struct itimerspec soon = {.it_value.tv_nsec = 1000000}, none = {0};
    do {
        for (int i = 0; i < COUNT; i++) {
            PROBE_TRY(timer_settime(timers[i], 0, &far_off, NULL));
        }
        probe_ready();
        PROBE_SABOTAGE("time left", timer_settime(timers[0], 0, &none, NULL));
        PROBE_SABOTAGE("exists", timer_delete(timers[1]));
        for (int i = 0; i < COUNT; i++) {
            struct itimerspec found = {0};
            char what[64];
            snprintf(what, sizeof what, "timer %d exists", i);
            probe_equal(what, 0, timer_gettime(timers[i], &found));
            snprintf(what, sizeof what, "time left of timer %d", i);
            probe_within(what, LONG - SLACK, LONG, found.it_value.tv_sec);
            snprintf(what, sizeof what, "interval of timer %d", i);
            probe_equal(what, 33, found.it_interval.tv_sec);
        }
        for (int i = 0; i < COUNT; i += 2) {
            value = 0;
            PROBE_TRY(timer_settime(timers[i], 0, &soon, NULL));
            probe_await("signal of a timer", &value);
            probe_equal("value of the signal", 100 + i, value);
        }
        if (!probe_told("newids")) {
            probe_equal("thread of the signal", worker_tid, thread_of_signal);
        }
    } while (probe_more());
    stop = 1;
    PROBE_ZERO(pthread_join(thread, NULL));
    return probe_pass();
}
