// SPDX-License-Identifier: Apache-2.0
// A thread whose filter ends the program for a call that Cryo needs: nothing is done in it.
#include "filter.h"

static volatile int confined;

static long confine(void *unused)
{
    (void)unused;
    const struct sock_filter rules[] = {
        FILTER_BEGIN, FILTER_ANSWER(SYS_get_robust_list, SECCOMP_RET_KILL_PROCESS),
        FILTER_ANSWER(SYS_restart_syscall, SECCOMP_RET_KILL_PROCESS),
        FILTER_ELSE(SECCOMP_RET_ALLOW)};
    PROBE_TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    filter_on(rules, sizeof rules / sizeof rules[0], 0);
    confined = 1;
    const struct timespec long_time = {.tv_sec = 3600};
    return nanosleep(&long_time, NULL);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    static struct probe_sleeper sleeper;
    probe_sleep_in(&sleeper, SYS_clock_nanosleep, confine, NULL);
    do {
        probe_ready();
        PROBE_SABOTAGE("the confined thread", confined = 0);
        probe_equal("the confined thread", 1, confined);
        probe_still_asleep("the confined thread", &sleeper);
    } while (probe_more());
    return probe_pass();
}
