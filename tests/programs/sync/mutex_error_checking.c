// SPDX-License-Identifier: Apache-2.0
// An error-checking mutex knows its owner: EDEADLK for the owner, EPERM for another thread.
#include "probe.h"

static pthread_mutex_t mutex;

static void *unlock_as_another(void *unused)
{
    probe_equal("unlocking by another thread", EPERM, pthread_mutex_unlock(&mutex));
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    pthread_mutexattr_t checking;
    PROBE_ZERO(pthread_mutexattr_init(&checking));
    PROBE_ZERO(pthread_mutexattr_settype(&checking, PTHREAD_MUTEX_ERRORCHECK));
    PROBE_ZERO(pthread_mutex_init(&mutex, &checking));
    do {
        PROBE_ZERO(pthread_mutex_lock(&mutex));
        probe_ready();
        PROBE_SABOTAGE("owner", pthread_mutex_unlock(&mutex));
        probe_equal("locking twice by the owner", EDEADLK, pthread_mutex_lock(&mutex));
        pthread_t thread;
        PROBE_ZERO(pthread_create(&thread, NULL, unlock_as_another, NULL));
        PROBE_ZERO(pthread_join(thread, NULL));
        probe_equal("unlocking by the owner", 0, pthread_mutex_unlock(&mutex));
        probe_equal("unlocking again", EPERM, pthread_mutex_unlock(&mutex));
    } while (probe_more());
    return probe_pass();
}
