// SPDX-License-Identifier: Apache-2.0
// The signal mask of each thread.
#include "probe.h"

enum { COUNT = 4 };

static volatile int set, check;

static sigset_t mask_of(int i)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGHUP + i);
    sigaddset(&mask, SIGRTMIN + 2 * i);
    sigaddset(&mask, i % 2 == 0 ? SIGCHLD : SIGSEGV);
    return mask;
}

static void check_mask(int i)
{
    const sigset_t expected = mask_of(i);
    sigset_t found;
    PROBE_ZERO(pthread_sigmask(SIG_BLOCK, NULL, &found));
    for (int number = 1; number < SIGRTMAX; number++) {
        if (number < 32 || number >= SIGRTMIN) {
            char what[64];
            snprintf(what, sizeof what, "signal %d in the mask of thread %d", number, i);
            probe_equal(what, sigismember(&expected, number), sigismember(&found, number));
        }
    }
}

static void *worker(void *argument)
{
    const int i = (int)(intptr_t)argument;
    const sigset_t mask = mask_of(i);
    PROBE_ZERO(pthread_sigmask(SIG_SETMASK, &mask, NULL));
    __atomic_add_fetch(&set, 1, __ATOMIC_ACQ_REL);
    probe_await("check", &check);
    check_mask(i);
    return NULL;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const sigset_t mask = mask_of(0);
    PROBE_ZERO(pthread_sigmask(SIG_SETMASK, &mask, NULL));
    do {
        pthread_t threads[COUNT];
        set = check = 0;
        for (int i = 1; i < COUNT; i++) {
            PROBE_ZERO(pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)i));
        }
        while (__atomic_load_n(&set, __ATOMIC_ACQUIRE) != COUNT - 1) {
            sched_yield();
        }
        probe_ready();
        const sigset_t other = mask_of(3);
        PROBE_SABOTAGE("mask", pthread_sigmask(SIG_SETMASK, &other, NULL));
        check_mask(0);
        check = 1;
        for (int i = 1; i < COUNT; i++) {
            PROBE_ZERO(pthread_join(threads[i], NULL));
        }
    } while (probe_more());
    return probe_pass();
}
