// SPDX-License-Identifier: Apache-2.0
// sem_timedwait with a day to go is woken by a post.
#include "probe.h"

#include <semaphore.h>

static sem_t semaphore;

static long call(void *unused)
{
    (void)unused;
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 86400;
    return sem_timedwait(&semaphore, &deadline);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(sem_init(&semaphore, 0, 0));
    do {
        struct probe_sleeper sleeper;
        probe_sleep_in(&sleeper, SYS_futex, call, NULL);
        probe_ready();
        PROBE_SABOTAGE("sem_timedwait", sem_post(&semaphore); probe_await("end", &sleeper.done));
        probe_still_asleep("sem_timedwait", &sleeper);
        PROBE_TRY(sem_post(&semaphore));
        probe_woken("sem_timedwait", &sleeper, 0, 0);
    } while (probe_more());
    return probe_pass();
}
