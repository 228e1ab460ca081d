// SPDX-License-Identifier: Apache-2.0
// pthread_key values, first and second level, and their destructors at thread exit.
#include "probe.h"

enum { KEYS = 100, THREADS = 3 };

static pthread_key_t keys[KEYS];
static volatile int destroyed, ready, check;

static void destroy(void *value)
{
    if (value != NULL) {
        __atomic_add_fetch(&destroyed, 1, __ATOMIC_ACQ_REL);
    }
}

static void *worker(void *argument)
{
    const intptr_t salt = (intptr_t)argument;
    for (int i = 0; i < KEYS; i++) {
        PROBE_ZERO(pthread_setspecific(keys[i], (void *)(salt * 1000 + i)));
    }
    __atomic_add_fetch(&ready, 1, __ATOMIC_ACQ_REL);
    probe_await("check", &check);
    PROBE_SABOTAGE("value", pthread_setspecific(keys[70], NULL));
    for (int i = 0; i < KEYS; i++) {
        probe_equal("value of a key", salt * 1000 + i,
                    (long long)(intptr_t)pthread_getspecific(keys[i]));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    for (int i = 0; i < KEYS; i++) {
        PROBE_ZERO(pthread_key_create(&keys[i], destroy));
    }
    do {
        pthread_t threads[THREADS];
        destroyed = ready = check = 0;
        for (int i = 0; i < THREADS; i++) {
            PROBE_ZERO(pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)(i + 1)));
        }
        while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) != THREADS) {
            sched_yield();
        }
        probe_ready();
        check = 1;
        for (int i = 0; i < THREADS; i++) {
            PROBE_ZERO(pthread_join(threads[i], NULL));
        }
        PROBE_SABOTAGE("destructors", destroyed--);
        probe_equal("destructors run", THREADS * KEYS, destroyed);
    } while (probe_more());
    return probe_pass();
}
