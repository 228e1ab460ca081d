// SPDX-License-Identifier: Apache-2.0
// A thread that runs as another user than the rest, by the raw system call.
#include "probe.h"

#include <pthread.h>
#include <sys/prctl.h>

static volatile int ready;

static void *other(void *nothing)
{
    enum { ANOTHER = 12345 };
    PROBE_TRY(syscall(SYS_setresuid, -1, ANOTHER, 0));
    PROBE_TRY(prctl(PR_SET_DUMPABLE, 1));
    for (ready = 1;;) {
        pause();
    }
    return nothing;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    pthread_t thread;
    PROBE_ZERO(pthread_create(&thread, NULL, other, NULL));
    probe_await("the thread", &ready);
    do {
        probe_ready();
        uid_t ids[3];
        PROBE_TRY(getresuid(&ids[0], &ids[1], &ids[2]));
        PROBE_SABOTAGE("user", ids[1]++);
        probe_equal("user of the first thread", 0, ids[1]);
    } while (probe_more());
    return probe_pass();
}
