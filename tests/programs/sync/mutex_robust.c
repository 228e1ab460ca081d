// SPDX-License-Identifier: Apache-2.0
// Robust mutexes: one held by a thread that dies after the check (the next owner is notified), and
// one whose owner had died before (and is made consistent afterwards).
#include "probe.h"

static pthread_mutex_t dies_later, died_before;
static volatile int locked, check;

static void *lock_and_end(void *unused)
{
    PROBE_ZERO(pthread_mutex_lock(&died_before));
    return unused;
}

static void *lock_and_wait(void *unused)
{
    PROBE_ZERO(pthread_mutex_lock(&dies_later));
    locked = 1;
    probe_await("check", &check);
    PROBE_SABOTAGE("owner died", pthread_mutex_unlock(&dies_later));
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    pthread_mutexattr_t robust;
    PROBE_ZERO(pthread_mutexattr_init(&robust));
    PROBE_ZERO(pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST));
    PROBE_ZERO(pthread_mutex_init(&dies_later, &robust));
    PROBE_ZERO(pthread_mutex_init(&died_before, &robust));
    do {
        pthread_t ended, waiting;
        locked = check = 0;
        PROBE_ZERO(pthread_create(&ended, NULL, lock_and_end, NULL));
        PROBE_ZERO(pthread_join(ended, NULL));
        PROBE_ZERO(pthread_create(&waiting, NULL, lock_and_wait, NULL));
        probe_await("lock of the thread", &locked);
        probe_ready();
        probe_equal("mutex whose owner lives", EBUSY, pthread_mutex_trylock(&dies_later));
        check = 1;
        probe_equal("locking while the owner died", EOWNERDEAD, pthread_mutex_lock(&dies_later));
        PROBE_ZERO(pthread_join(waiting, NULL));
        probe_equal("locking after the owner died", EOWNERDEAD, pthread_mutex_lock(&died_before));
        pthread_mutex_t *both[] = {&dies_later, &died_before};
        for (int i = 0; i < 2; i++) {
            probe_equal("making it consistent", 0, pthread_mutex_consistent(both[i]));
            probe_equal("unlocking", 0, pthread_mutex_unlock(both[i]));
            probe_equal("locking as usual", 0, pthread_mutex_lock(both[i]));
            probe_equal("unlocking as usual", 0, pthread_mutex_unlock(both[i]));
        }
    } while (probe_more());
    return probe_pass();
}
