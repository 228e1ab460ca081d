// SPDX-License-Identifier: Apache-2.0
// A /proc file about a thread: the thread does not exist yet when a restart reopens files.
#include "probe.h"

#include <pthread.h>
#include <semaphore.h>

static sem_t opened;
static int fd = -1;

static void *open_own(void *unused)
{
    fd = PROBE_TRY(open("/proc/thread-self/comm", O_RDONLY | O_CLOEXEC));
    sem_post(&opened);
    for (;;)
        pause();
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    pthread_t thread;
    char name[64] = "";
    PROBE_TRY(sem_init(&opened, 0, 0));
    probe_equal("thread", 0, pthread_create(&thread, NULL, open_own, NULL));
    PROBE_TRY(sem_wait(&opened));
    do {
        probe_ready();
        PROBE_SABOTAGE("file", dup2(PROBE_TRY(open("/dev/null", O_RDONLY)), fd));
        probe_true("file about the thread", pread(fd, name, sizeof name, 0) > 0);
    } while (probe_more());
    return probe_pass();
}
