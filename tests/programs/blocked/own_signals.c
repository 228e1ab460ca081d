// SPDX-License-Identifier: Apache-2.0
// A system call that is later interrupted by the program's own signals: restarted with SA_RESTART,
// EINTR without, even if a checkpoint came first.
#include "probe.h"

static int ends[2];
static volatile sig_atomic_t handled;

static void count(int number)
{
    (void)number;
    __atomic_add_fetch(&handled, 1, __ATOMIC_ACQ_REL); // in several threads at once
}

static long call(void *unused)
{
    (void)unused;
    char byte;
    return read(ends[0], &byte, 1);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sigaction restarting = {.sa_handler = count, .sa_flags = SA_RESTART};
    struct sigaction interrupting = {.sa_handler = count};
    PROBE_TRY(sigaction(SIGUSR1, &restarting, NULL));
    PROBE_TRY(sigaction(SIGUSR2, &interrupting, NULL));
    PROBE_TRY(pipe(ends));
    do {
        struct probe_sleeper restarted, interrupted;
        handled = 0;
        probe_sleep_in(&restarted, SYS_read, call, NULL);
        probe_sleep_in(&interrupted, SYS_read, call, NULL);
        probe_ready();
        PROBE_SABOTAGE("SA_RESTART", sigaction(SIGUSR1, &interrupting, NULL));
        PROBE_ZERO(pthread_kill(restarted.thread, SIGUSR1));
        PROBE_ZERO(pthread_kill(interrupted.thread, SIGUSR2));
        probe_woken("read without SA_RESTART", &interrupted, -1, EINTR);
        while (handled < 2) {
            sched_yield();
        }
        PROBE_TRY(write(ends[1], "x", 1));
        probe_woken("read with SA_RESTART", &restarted, 1, 0);
    } while (probe_more());
    return probe_pass();
}
