// SPDX-License-Identifier: Apache-2.0
// Threads start and end all the time, joined and detached, while the checkpoint arrives.
#include "probe.h"

static volatile int stop;
static volatile unsigned long made, ran;

static void *brief(void *unused)
{
    __atomic_add_fetch(&ran, 1, __ATOMIC_ACQ_REL);
    return unused;
}

static void *maker(void *unused)
{
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        pthread_t joined, detached;
        PROBE_ZERO(pthread_create(&joined, NULL, brief, NULL));
        PROBE_ZERO(pthread_create(&detached, NULL, brief, NULL));
        __atomic_add_fetch(&made, 2, __ATOMIC_ACQ_REL);
        PROBE_ZERO(pthread_detach(detached));
        PROBE_ZERO(pthread_join(joined, NULL));
    }
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    pthread_t makers[2];
    for (int i = 0; i < 2; i++) {
        PROBE_ZERO(pthread_create(&makers[i], NULL, maker, NULL));
    }
    do {
        probe_ready();
        const unsigned long before = made;
        while (made < before + 20) { // both makers continue; neither hangs in create or join
            sched_yield();
        }
    } while (probe_more());
    stop = 1;
    for (int i = 0; i < 2; i++) {
        PROBE_ZERO(pthread_join(makers[i], NULL));
    }
    while (__atomic_load_n(&ran, __ATOMIC_ACQUIRE) < made) {
        sched_yield();
    }
    probe_equal("threads that ran", (long long)made, (long long)ran);
    return probe_pass();
}
