// SPDX-License-Identifier: Apache-2.0
// A recursive mutex held three deep: owner and depth.
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
    pthread_mutexattr_t recursive;
    PROBE_ZERO(pthread_mutexattr_init(&recursive));
    PROBE_ZERO(pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE));
    PROBE_ZERO(pthread_mutex_init(&mutex, &recursive));
    do {
        struct probe_sleeper waiter;
        for (int i = 0; i < 3; i++) {
            PROBE_ZERO(pthread_mutex_lock(&mutex));
        }
        probe_sleep_in(&waiter, SYS_futex, enter, NULL);
        probe_ready();
        PROBE_SABOTAGE("depth", pthread_mutex_unlock(&mutex); pthread_mutex_unlock(&mutex));
        probe_equal("locking once more", 0, pthread_mutex_lock(&mutex));
        for (int i = 0; i < 3; i++) {
            probe_equal("unlocking by depth", 0, pthread_mutex_unlock(&mutex));
        }
        probe_still_asleep("waiter, until the depth is zero", &waiter);
        probe_equal("last unlocking", 0, pthread_mutex_unlock(&mutex));
        probe_woken("waiter", &waiter, 0, 0);
        probe_equal("unlocking too often", EPERM, pthread_mutex_unlock(&mutex));
    } while (probe_more());
    return probe_pass();
}
