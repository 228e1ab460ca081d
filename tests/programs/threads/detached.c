// SPDX-License-Identifier: Apache-2.0
// Detached threads: they keep running, end by themselves, and leave nothing behind.
#include "probe.h"

enum { COUNT = 8 };

static volatile int started, check, ended;

static void *worker(void *unused)
{
    __atomic_add_fetch(&started, 1, __ATOMIC_ACQ_REL);
    probe_await("check", &check);
    __atomic_add_fetch(&ended, 1, __ATOMIC_ACQ_REL);
    return unused;
}

static int threads_now(void)
{
    struct stat tasks;
    PROBE_TRY(stat("/proc/self/task", &tasks));
    return (int)tasks.st_nlink - 2;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    pthread_attr_t detached;
    PROBE_ZERO(pthread_attr_init(&detached));
    PROBE_ZERO(pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED));
    do {
        started = check = ended = 0;
        const int before = threads_now();
        for (int i = 0; i < COUNT; i++) {
            pthread_t thread;
            PROBE_ZERO(pthread_create(&thread, &detached, worker, NULL));
        }
        while (__atomic_load_n(&started, __ATOMIC_ACQUIRE) != COUNT) {
            sched_yield();
        }
        probe_ready();
        probe_equal("threads that ended before told to", 0, ended);
        probe_equal("threads alive", before + COUNT, threads_now());
        check = 1;
        while (threads_now() > before) {
            sched_yield();
        }
        PROBE_SABOTAGE("ended", ended--);
        probe_equal("threads that ended", COUNT, ended);
    } while (probe_more());
    return probe_pass();
}
