// SPDX-License-Identifier: Apache-2.0
// Memory shared by a fork, anonymous and of a memfd, is the same for both, with a lock in it.
#include "probe.h"

struct shared {
    pthread_mutex_t mutex;
    int counter;
    unsigned char bytes[100000];
};

static struct shared *shared;

static void child(void)
{
    probe_await_check();
    PROBE_SABOTAGE("counter", shared = mmap(shared, sizeof *shared, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0));
    for (int i = 0; i < 1000; i++) {
        PROBE_ZERO(pthread_mutex_lock(&shared->mutex));
        shared->counter++;
        PROBE_ZERO(pthread_mutex_unlock(&shared->mutex));
    }
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    shared = PROBE_MAP(
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    pthread_mutexattr_t attributes;
    PROBE_ZERO(pthread_mutexattr_init(&attributes));
    PROBE_ZERO(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    PROBE_ZERO(pthread_mutex_init(&shared->mutex, &attributes));
    do {
        shared->counter = 0;
        probe_fill(shared->bytes, sizeof shared->bytes, probe_cycle());
        const pid_t members[] = {probe_fork(child), probe_fork(child)};
        probe_ready();
        for (int i = 0; i < 2; i++) {
            probe_reap("child", members[i]);
        }
        probe_equal("counter of both children", 2000, shared->counter);
        probe_filled("shared bytes", shared->bytes, sizeof shared->bytes, probe_cycle());
    } while (probe_more());
    return probe_pass();
}
