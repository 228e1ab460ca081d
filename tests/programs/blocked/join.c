// SPDX-License-Identifier: Apache-2.0
// pthread_join of a thread that keeps running: the kernel announces the end of a thread.
#include "probe.h"

static volatile int stop;

static void *worker(void *unused)
{
    probe_await("stop", &stop);
    (void)unused;
    return (void *)(intptr_t)(probe_sabotaged("value") ? 1 : 77);
}

static long call(void *thread)
{
    void *value = NULL;
    const int error = pthread_join(*(pthread_t *)thread, &value);
    return error != 0 ? -error : (long)(intptr_t)value;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        pthread_t thread;
        struct probe_sleeper joiner;
        stop = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, worker, NULL));
        probe_sleep_in(&joiner, SYS_futex, call, &thread);
        probe_ready();
        probe_still_asleep("pthread_join", &joiner);
        stop = 1;
        probe_woken("value of the thread joined", &joiner, 77, 0);
    } while (probe_more());
    return probe_pass();
}
