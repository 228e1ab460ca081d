// SPDX-License-Identifier: Apache-2.0
// A process in a session that is led by none of its next ancestors: each of these has made a
// session of its own since it has made its child.
#include "probe.h"

#include <sched.h>

enum { DEPTH = 3 };

static struct shared {
    pid_t first;
    volatile int ready;
} * shared;

static void descend(int depth)
{
    if (depth == 0) {
        __atomic_fetch_add(&shared->ready, 1, __ATOMIC_SEQ_CST);
        probe_await_check();
        PROBE_SABOTAGE("session", PROBE_TRY(setsid()));
        probe_equal("session of the last", getsid(shared->first), getsid(0));
        probe_equal("group of the last", getpgid(shared->first), getpgrp());
        return;
    }
    const pid_t below = PROBE_TRY(fork());
    if (below == 0) {
        descend(depth - 1);
        _exit(0);
    }
    PROBE_TRY(setsid());
    __atomic_fetch_add(&shared->ready, 1, __ATOMIC_SEQ_CST);
    probe_await_check();
    probe_equal("session of one between", getpid(), getsid(0));
    probe_reap("the one below", below);
}

static void first(void)
{
    shared->first = getpid();
    PROBE_TRY(setsid());
    const pid_t below = PROBE_TRY(fork());
    if (below == 0) {
        descend(DEPTH);
        _exit(0);
    }
    while (shared->ready <= DEPTH)
        sched_yield(); // the root waits for it to sleep
    probe_await_check();
    probe_equal("session of the first", getpid(), getsid(0));
    probe_reap("the one below the first", below);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    probe_true("shared memory", shared != MAP_FAILED);
    do {
        shared->ready = 0;
        const pid_t member = probe_fork(first);
        probe_ready();
        probe_reap("the first", member);
    } while (probe_more());
    return probe_pass();
}
