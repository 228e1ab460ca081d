// SPDX-License-Identifier: Apache-2.0
// A thread asleep at a cancellation point is cancelled after the check, with its clean-up handlers;
// one that disabled cancellation is not.
#include "probe.h"

static volatile int cleaned;
static int ends[2];

static void clean(void *argument)
{
    cleaned += (int)(intptr_t)argument;
}

static long cancellable(void *unused)
{
    (void)unused;
    char byte;
    volatile long got = 0;
    pthread_cleanup_push(clean, (void *)5);
    got = read(ends[0], &byte, 1);
    pthread_cleanup_pop(0);
    return got;
}

static long not_cancellable(void *unused)
{
    (void)unused;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return cancellable(NULL);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(pipe(ends));
    do {
        struct probe_sleeper dies, lives;
        void *result;
        cleaned = 0;
        probe_sleep_in(&dies, SYS_read, cancellable, NULL);
        probe_sleep_in(&lives, SYS_read, not_cancellable, NULL);
        probe_ready();
        probe_still_asleep("thread to be cancelled", &dies);
        PROBE_ZERO(pthread_cancel(dies.thread));
        PROBE_ZERO(pthread_cancel(lives.thread));
        PROBE_ZERO(pthread_join(dies.thread, &result));
        PROBE_SABOTAGE("clean-up", cleaned--);
        probe_true("cancelled thread", result == PTHREAD_CANCELED);
        probe_equal("clean-up run", 5, cleaned);
        probe_still_asleep("thread not to be cancelled", &lives);
        PROBE_TRY(write(ends[1], "x", 1));
        probe_woken("thread not cancelled", &lives, 1, 0);
    } while (probe_more());
    return probe_pass();
}
