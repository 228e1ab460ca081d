// SPDX-License-Identifier: Apache-2.0
// Processes are forked, spawned and end all the time while the checkpoint arrives: each one is
// included or not, none is lost or killed by it.
#include "probe.h"

#include <spawn.h>

static volatile int stop;
static volatile unsigned long made;

extern char **environ;

static void *maker(void *unused)
{
    while (!stop) {
        const pid_t forked = PROBE_TRY(fork());
        if (forked == 0) {
            _exit(3);
        }
        pid_t spawned;
        char *arguments[] = {"true", NULL};
        PROBE_ZERO(posix_spawnp(&spawned, "true", NULL, NULL, arguments, environ));
        int status = 0;
        PROBE_TRY(waitpid(forked, &status, 0));
        probe_equal("status of a forked one", 3 << 8, status);
        PROBE_TRY(waitpid(spawned, &status, 0));
        probe_equal("status of a spawned one", 0, status);
        made += 2;
    }
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    pthread_t thread;
    PROBE_ZERO(pthread_create(&thread, NULL, maker, NULL));
    do {
        probe_ready();
        for (const unsigned long before = made; made < before + 10;) {
            sched_yield();
        }
    } while (probe_more());
    stop = 1;
    PROBE_ZERO(pthread_join(thread, NULL));
    probe_equal("children left", -1, waitpid(-1, NULL, WNOHANG));
    return probe_pass();
}
