// SPDX-License-Identifier: Apache-2.0
// nanosleep and clock_nanosleep, relative and absolute, with and without room for the remaining
// time, and usleep: they keep sleeping.
#include "probe.h"

enum { HOURS = 100 * 3600 };

static struct timespec left[2];

static void nothing(int number)
{
    (void)number;
}

static long call_nanosleep(void *unused)
{
    (void)unused;
    return nanosleep(&(struct timespec){.tv_sec = HOURS}, &left[0]);
}

static long call_relative(void *unused)
{
    (void)unused;
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_sec = HOURS}, &left[1]);
}

static long call_absolute(void *unused)
{
    (void)unused;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += HOURS;
    return clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL);
}

static long call_restless(void *unused)
{
    (void)unused;
    return nanosleep(&(struct timespec){.tv_sec = HOURS}, NULL);
}

static long call_usleep(void *unused)
{
    (void)unused;
    return usleep(4000 * 1000000U);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sigaction action = {.sa_handler = nothing};
    PROBE_TRY(sigaction(SIGUSR1, &action, NULL));
    do {
        struct probe_sleeper sleepers[5];
        const char *names[] = {"nanosleep", "relative clock_nanosleep", "absolute clock_nanosleep",
                               "nanosleep without a place for the rest", "usleep"};
        const long results[] = {-1, EINTR, EINTR, -1, -1};
        probe_sleep_in(&sleepers[0], SYS_clock_nanosleep, call_nanosleep, NULL);
        probe_sleep_in(&sleepers[1], SYS_clock_nanosleep, call_relative, NULL);
        probe_sleep_in(&sleepers[2], SYS_clock_nanosleep, call_absolute, NULL);
        probe_sleep_in(&sleepers[3], SYS_clock_nanosleep, call_restless, NULL);
        probe_sleep_in(&sleepers[4], SYS_clock_nanosleep, call_usleep, NULL);
        probe_ready();
        PROBE_SABOTAGE("clock_nanosleep", pthread_kill(sleepers[1].thread, SIGUSR1);
                       probe_await("end", &sleepers[1].done));
        for (int i = 0; i < 5; i++) {
            probe_still_asleep(names[i], &sleepers[i]);
            PROBE_ZERO(pthread_kill(sleepers[i].thread, SIGUSR1));
            probe_woken(names[i], &sleepers[i], results[i], 0);
        }
        PROBE_SABOTAGE("time left", left[0].tv_sec = 0);
        for (int i = 0; i < 2; i++) {
            probe_within("time left", HOURS / 2, HOURS, left[i].tv_sec);
        }
    } while (probe_more());
    return probe_pass();
}
