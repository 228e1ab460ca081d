// SPDX-License-Identifier: Apache-2.0
// A thread that blocks every signal by the raw system call, including the checkpointer's.
#include "probe.h"

static volatile int blocked, check;

static void *worker(void *unused)
{
    const uint64_t all = ~0ul, usual = 0;
    uint64_t found = 0;
    PROBE_TRY(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all));
    blocked = 1;
    while (!check) {
        sched_yield();
    }
    PROBE_SABOTAGE("mask", syscall(SYS_rt_sigprocmask, SIG_SETMASK, &usual, NULL, sizeof usual));
    PROBE_TRY(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &found, sizeof found));
    // All but SIGKILL and SIGSTOP, which cannot be blocked.
    probe_equal("mask", (long long)(all & ~(1ul << (SIGKILL - 1) | 1ul << (SIGSTOP - 1))),
                (long long)found);
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        pthread_t thread;
        blocked = check = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, worker, NULL));
        probe_await("blocked signals", &blocked);
        probe_ready();
        check = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
    } while (probe_more());
    return probe_pass();
}
