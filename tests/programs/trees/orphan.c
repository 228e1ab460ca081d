// SPDX-License-Identifier: Apache-2.0
// A process whose parent has ended is reparented to the nearest subreaper, which can wait for it.
#include "probe.h"

#include <sys/prctl.h>

static int names[2];
static pid_t subreaper;

static void orphan(void)
{
    while (getppid() != subreaper) {
        sched_yield();
    }
    const pid_t me = getpid();
    PROBE_TRY(write(names[1], &me, sizeof me));
    probe_await_check();
    probe_equal("parent of the orphan", subreaper, getppid());
    _exit(probe_sabotaged("orphan") ? 1 : 0);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(prctl(PR_SET_CHILD_SUBREAPER, 1));
    subreaper = getpid();
    do {
        pid_t lost;
        PROBE_TRY(pipe(names));
        const pid_t parent = PROBE_TRY(fork());
        if (parent == 0) {
            if (PROBE_TRY(fork()) == 0) {
                orphan();
            }
            _exit(0);
        }
        probe_reap("parent of the orphan", parent);
        PROBE_TRY(read(names[0], &lost, sizeof lost));
        close(names[0]);
        close(names[1]);
        probe_await_blocked(lost, SYS_clock_nanosleep);
        probe_ready();
        probe_reap("orphan", lost);
    } while (probe_more());
    return probe_pass();
}
