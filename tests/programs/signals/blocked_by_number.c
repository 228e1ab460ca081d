// SPDX-License-Identifier: Apache-2.0
// A thread that blocks every signal except the C library's by the raw system call, as Go's runtime
// does in every program that asks for signals.
#include "probe.h"

static const uint64_t usual;
static volatile int blocked, check;

static void *worker(void *unused)
{
    const uint64_t library = 7ul << 31; // 32 to 34
    const uint64_t unblockable = 1ul << (SIGKILL - 1) | 1ul << (SIGSTOP - 1);
    const uint64_t most = ~(library | unblockable);
    uint64_t found = 0;
    PROBE_TRY(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &most, NULL, sizeof most));
    blocked = 1;
    while (!check) {
        sched_yield();
    }
    PROBE_SABOTAGE("mask", syscall(SYS_rt_sigprocmask, SIG_SETMASK, &usual, NULL, sizeof usual));
    PROBE_TRY(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &found, sizeof found));
    probe_equal("mask", (long long)most, (long long)found);
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
