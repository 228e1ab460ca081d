// SPDX-License-Identifier: Apache-2.0
// Condition variables: two waiters woken by one broadcast, one by a signal, none spuriously.
#include "probe.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all = PTHREAD_COND_INITIALIZER, one = PTHREAD_COND_INITIALIZER;
static int all_may_go, one_may_go;

static long wait_for(pthread_cond_t *condition, const int *may_go)
{
    long error = pthread_mutex_lock(&mutex);
    while (error == 0 && !*may_go) {
        error = pthread_cond_wait(condition, &mutex);
    }
    return error != 0 ? error : pthread_mutex_unlock(&mutex);
}

static long wait_for_all(void *unused)
{
    (void)unused;
    return wait_for(&all, &all_may_go);
}

static long wait_for_one(void *unused)
{
    (void)unused;
    return wait_for(&one, &one_may_go);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        struct probe_sleeper waiters[3];
        all_may_go = one_may_go = 0;
        probe_sleep_in(&waiters[0], SYS_futex, wait_for_all, NULL);
        probe_sleep_in(&waiters[1], SYS_futex, wait_for_all, NULL);
        probe_sleep_in(&waiters[2], SYS_futex, wait_for_one, NULL);
        probe_ready();
        PROBE_SABOTAGE("waiter", all_may_go = 1; pthread_cond_broadcast(&all);
                       probe_await("end of the waiter", &waiters[0].done));
        for (int i = 0; i < 3; i++) {
            probe_still_asleep("waiter", &waiters[i]);
        }
        PROBE_ZERO(pthread_mutex_lock(&mutex));
        all_may_go = one_may_go = 1;
        PROBE_ZERO(pthread_mutex_unlock(&mutex));
        PROBE_ZERO(pthread_cond_broadcast(&all));
        PROBE_ZERO(pthread_cond_signal(&one));
        probe_woken("first waiter for the broadcast", &waiters[0], 0, 0);
        probe_woken("second waiter for the broadcast", &waiters[1], 0, 0);
        probe_woken("waiter for the signal", &waiters[2], 0, 0);
    } while (probe_more());
    return probe_pass();
}
