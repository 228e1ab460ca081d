// SPDX-License-Identifier: Apache-2.0
// THREADS threads, each with a counter on its own stack and one in memory, all running when saved.
#include "probe.h"

static struct {
    pthread_t thread;
    volatile unsigned long count;
    volatile unsigned long mismatches;
} workers[THREADS];

static volatile int stop;

static void *work(void *argument)
{
    const size_t i = (size_t)(uintptr_t)argument;
    volatile unsigned long own = workers[i].count;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        own++;
        workers[i].count++;
        workers[i].mismatches += own != workers[i].count;
        // 10,000 times a second in all: a hundred times as many would, as timer interrupts of a
        // virtual machine, leave no time for anything else.
        nanosleep(&(struct timespec){.tv_nsec = 100000L * THREADS}, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        stop = 0;
        for (size_t i = 0; i < THREADS; i++) {
            PROBE_ZERO(pthread_create(&workers[i].thread, NULL, work, (void *)(uintptr_t)i));
        }
        probe_ready();
        for (size_t i = 0; i < THREADS; i++) {
            const unsigned long at = workers[i].count;
            while (workers[i].count == at) { // each of them keeps running
                sched_yield();
            }
        }
        PROBE_SABOTAGE("count", workers[THREADS / 2].count++; workers[THREADS / 2].mismatches = 1);
        stop = 1;
        for (size_t i = 0; i < THREADS; i++) {
            PROBE_ZERO(pthread_join(workers[i].thread, NULL));
            probe_equal("differences between count on stack and in memory", 0,
                        (long long)workers[i].mismatches);
        }
    } while (probe_more());
    return probe_pass();
}
