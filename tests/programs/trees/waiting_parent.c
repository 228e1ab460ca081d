// SPDX-License-Identifier: Apache-2.0
// A parent that sleeps in waitpid(2) while its child continues.
#include "probe.h"

static pid_t member;

static void child(void)
{
    probe_await_check();
    PROBE_SABOTAGE("status", _exit(8));
    _exit(7);
}

static long call(void *unused)
{
    int status;
    (void)unused;
    const pid_t reaped = waitpid(member, &status, 0);
    return reaped == member && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        struct probe_sleeper sleeper;
        member = probe_fork(child);
        probe_sleep_in(&sleeper, SYS_wait4, call, NULL);
        probe_ready();
        probe_woken("status from waitpid", &sleeper, 7, 0);
    } while (probe_more());
    return probe_pass();
}
