// SPDX-License-Identifier: Apache-2.0
// A normal mutex that is held, with two threads waiting for it.
#include "probe.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int inside;

static long enter(void *unused)
{
    (void)unused;
    const int error = pthread_mutex_lock(&mutex);
    inside++;
    return error != 0 ? error : pthread_mutex_unlock(&mutex);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        struct probe_sleeper waiters[2];
        inside = 0;
        PROBE_ZERO(pthread_mutex_lock(&mutex));
        for (int i = 0; i < 2; i++) {
            probe_sleep_in(&waiters[i], SYS_futex, enter, NULL);
        }
        probe_ready();
        PROBE_SABOTAGE("held", pthread_mutex_unlock(&mutex);
                       probe_await("end of a waiter", &waiters[0].done);
                       probe_await("end of a waiter", &waiters[1].done));
        probe_equal("trylock of the held mutex", EBUSY, pthread_mutex_trylock(&mutex));
        probe_equal("threads inside the held mutex", 0, inside);
        PROBE_ZERO(pthread_mutex_unlock(&mutex));
        probe_woken("first waiter", &waiters[0], 0, 0);
        probe_woken("second waiter", &waiters[1], 0, 0);
        probe_equal("threads that were inside", 2, inside);
    } while (probe_more());
    return probe_pass();
}
