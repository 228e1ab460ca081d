// SPDX-License-Identifier: Apache-2.0
// Names of threads, including the main one.
#include "probe.h"

#include <sys/prctl.h>

enum { COUNT = 4 };

static volatile int named, check;

static void *worker(void *argument)
{
    char expected[16], found[16] = "";
    snprintf(expected, sizeof expected, "worker %d", (int)(intptr_t)argument);
    PROBE_ZERO(pthread_setname_np(pthread_self(), expected));
    __atomic_add_fetch(&named, 1, __ATOMIC_ACQ_REL);
    probe_await("check", &check);
    PROBE_TRY(prctl(PR_GET_NAME, found));
    probe_equal_text("name of a thread", expected, found);
    return NULL;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(prctl(PR_SET_NAME, "(odd) name\n"));
    do {
        pthread_t threads[COUNT];
        named = check = 0;
        for (int i = 0; i < COUNT; i++) {
            PROBE_ZERO(pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)i));
        }
        while (__atomic_load_n(&named, __ATOMIC_ACQUIRE) != COUNT) {
            sched_yield();
        }
        probe_ready();
        PROBE_SABOTAGE("name of main", prctl(PR_SET_NAME, "other"));
        PROBE_SABOTAGE("name of a thread", pthread_setname_np(threads[1], "other"));
        char found[16] = "";
        PROBE_TRY(prctl(PR_GET_NAME, found));
        probe_equal_text("name of main", "(odd) name\n", found);
        check = 1;
        for (int i = 0; i < COUNT; i++) {
            PROBE_ZERO(pthread_join(threads[i], NULL));
        }
    } while (probe_more());
    return probe_pass();
}
