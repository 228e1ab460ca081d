// SPDX-License-Identifier: Apache-2.0
// A priority-inheriting mutex, held and waited for: the kernel keeps part of its state.
#include "probe.h"

static pthread_mutex_t mutex;

static long enter(void *unused)
{
    (void)unused;
    const int error = pthread_mutex_lock(&mutex);
    return error != 0 ? error : pthread_mutex_unlock(&mutex);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    pthread_mutexattr_t inheriting;
    PROBE_ZERO(pthread_mutexattr_init(&inheriting));
    PROBE_ZERO(pthread_mutexattr_setprotocol(&inheriting, PTHREAD_PRIO_INHERIT));
    PROBE_ZERO(pthread_mutex_init(&mutex, &inheriting));
    do {
        struct probe_sleeper waiters[2];
        PROBE_ZERO(pthread_mutex_lock(&mutex));
        for (int i = 0; i < 2; i++) {
            probe_sleep_in(&waiters[i], SYS_futex, enter, NULL);
        }
        probe_ready();
        PROBE_SABOTAGE("held", pthread_mutex_unlock(&mutex);
                       probe_await("end of a waiter", &waiters[0].done);
                       probe_await("end of a waiter", &waiters[1].done));
        probe_equal("trylock of the held mutex", EBUSY, pthread_mutex_trylock(&mutex));
        probe_still_asleep("first waiter", &waiters[0]);
        probe_still_asleep("second waiter", &waiters[1]);
        probe_equal("unlocking", 0, pthread_mutex_unlock(&mutex));
        probe_woken("first waiter", &waiters[0], 0, 0);
        probe_woken("second waiter", &waiters[1], 0, 0);
        probe_equal("locking again", 0, pthread_mutex_lock(&mutex));
        probe_equal("unlocking again", 0, pthread_mutex_unlock(&mutex));
    } while (probe_more());
    return probe_pass();
}
