// SPDX-License-Identifier: Apache-2.0
// A spinlock that is held while another thread spins for it.
#include "probe.h"

static pthread_spinlock_t lock;
static volatile int spinning, entered;

static void *spin(void *unused)
{
    spinning = 1;
    PROBE_ZERO(pthread_spin_lock(&lock));
    entered = 1;
    PROBE_ZERO(pthread_spin_unlock(&lock));
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_ZERO(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE));
    do {
        pthread_t thread;
        spinning = entered = 0;
        PROBE_ZERO(pthread_spin_lock(&lock));
        PROBE_ZERO(pthread_create(&thread, NULL, spin, NULL));
        probe_await("spinning thread", &spinning);
        probe_ready();
        PROBE_SABOTAGE("held", pthread_spin_unlock(&lock); PROBE_ZERO(pthread_join(thread, NULL)));
        probe_equal("trylock of the held spinlock", EBUSY, pthread_spin_trylock(&lock));
        probe_equal("thread inside", 0, entered);
        PROBE_ZERO(pthread_spin_unlock(&lock));
        PROBE_ZERO(pthread_join(thread, NULL));
        probe_equal("thread that was inside", 1, entered);
    } while (probe_more());
    return probe_pass();
}
