// SPDX-License-Identifier: Apache-2.0
// Semaphores: the value of an unnamed one, and a waiter on an empty one.
#include "probe.h"

#include <semaphore.h>

static sem_t empty, full;

static long wait_empty(void *unused)
{
    (void)unused;
    return sem_wait(&empty); // EINTR here would be a checkpoint showing through
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(sem_init(&empty, 0, 0));
    PROBE_TRY(sem_init(&full, 0, 0));
    do {
        struct probe_sleeper waiter;
        for (int i = 0; i < 3; i++) {
            PROBE_TRY(sem_post(&full));
        }
        probe_sleep_in(&waiter, SYS_futex, wait_empty, NULL);
        probe_ready();
        PROBE_SABOTAGE("value", sem_post(&full));
        PROBE_SABOTAGE("waiter", sem_post(&empty); probe_await("end", &waiter.done));
        int value;
        PROBE_TRY(sem_getvalue(&full, &value));
        probe_equal("value of the semaphore", 3, value);
        probe_still_asleep("waiter", &waiter);
        PROBE_TRY(sem_post(&empty));
        probe_woken("waiter", &waiter, 0, 0);
        while (sem_trywait(&full) == 0) {
            value--;
        }
        probe_equal("times it could be taken", 0, value);
    } while (probe_more());
    return probe_pass();
}
