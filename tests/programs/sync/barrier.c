// SPDX-License-Identifier: Apache-2.0
// A barrier of four with three waiting: it opens when the last arrives, and again the next time.
#include "probe.h"

static pthread_barrier_t barrier;
static int serial;

static long arrive(void *unused)
{
    (void)unused;
    const int result = pthread_barrier_wait(&barrier);
    __atomic_add_fetch(&serial, result == PTHREAD_BARRIER_SERIAL_THREAD, __ATOMIC_ACQ_REL);
    return result == PTHREAD_BARRIER_SERIAL_THREAD ? 0 : result;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_ZERO(pthread_barrier_init(&barrier, NULL, 4));
    do {
        struct probe_sleeper waiters[3];
        serial = 0;
        for (int i = 0; i < 3; i++) {
            probe_sleep_in(&waiters[i], SYS_futex, arrive, NULL);
        }
        probe_ready();
        PROBE_SABOTAGE("waiter", arrive(NULL); probe_await("end", &waiters[0].done));
        for (int i = 0; i < 3; i++) {
            probe_still_asleep("waiter at the barrier", &waiters[i]);
        }
        arrive(NULL);
        for (int i = 0; i < 3; i++) {
            probe_woken("waiter at the barrier", &waiters[i], 0, 0);
        }
        probe_equal("serial threads", 1, serial);
    } while (probe_more());
    return probe_pass();
}
