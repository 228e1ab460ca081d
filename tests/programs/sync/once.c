// SPDX-License-Identifier: Apache-2.0
// pthread_once in progress in one thread while another waits for it: it runs once.
#include "probe.h"

static pthread_once_t once;
static volatile int runs, finish;

static void initialise(void)
{
    runs++;
    probe_await("end of the initialisation", &finish);
}

static long call_once(void *unused)
{
    (void)unused;
    return pthread_once(&once, initialise);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        struct probe_sleeper runner, waiter;
        once = (pthread_once_t)PTHREAD_ONCE_INIT;
        runs = finish = 0;
        probe_sleep_in(&runner, SYS_poll, call_once, NULL);
        probe_sleep_in(&waiter, SYS_futex, call_once, NULL);
        probe_ready();
        PROBE_SABOTAGE("times", runs++);
        probe_still_asleep("thread that initialises", &runner);
        probe_still_asleep("thread that waits", &waiter);
        finish = 1;
        probe_woken("thread that initialises", &runner, 0, 0);
        probe_woken("thread that waits", &waiter, 0, 0);
        PROBE_ZERO(pthread_once(&once, initialise));
        probe_equal("times it was run", 1, runs);
    } while (probe_more());
    return probe_pass();
}
