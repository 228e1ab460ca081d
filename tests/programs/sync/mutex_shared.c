// SPDX-License-Identifier: Apache-2.0
// A process-shared mutex in shared memory, held: a child made later waits for it.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    pthread_mutexattr_t shared;
    PROBE_ZERO(pthread_mutexattr_init(&shared));
    PROBE_ZERO(pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED));
    pthread_mutex_t *mutex =
        PROBE_MAP(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    PROBE_ZERO(pthread_mutex_init(mutex, &shared));
    do {
        PROBE_ZERO(pthread_mutex_lock(mutex));
        probe_ready();
        PROBE_SABOTAGE("shared mutex", pthread_mutex_unlock(mutex));
        const pid_t child = PROBE_TRY(fork());
        if (child == 0) {
            const int tried = pthread_mutex_trylock(mutex);
            _exit(tried != EBUSY || pthread_mutex_lock(mutex) || pthread_mutex_unlock(mutex));
        }
        if (!probe_sabotaged("shared mutex")) {
            probe_await_blocked(child, SYS_futex);
        }
        probe_equal("unlocking", 0, pthread_mutex_unlock(mutex));
        int status;
        PROBE_TRY(waitpid(child, &status, 0));
        probe_equal("what the child saw of the shared mutex", 0, status);
    } while (probe_more());
    return probe_pass();
}
