// SPDX-License-Identifier: Apache-2.0
// A program that installs its own handler for the last real-time signal by the raw system call.
#include "probe.h"

struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const struct kernel_action ignore = {.handler = SIG_IGN};
    PROBE_TRY(syscall(SYS_rt_sigaction, SIGRTMAX, &ignore, NULL, sizeof(uint64_t)));
    do {
        struct kernel_action found;
        probe_ready();
        const struct kernel_action usual = {.handler = SIG_DFL};
        PROBE_SABOTAGE("disposition",
                       syscall(SYS_rt_sigaction, SIGRTMAX, &usual, NULL, sizeof(uint64_t)));
        PROBE_TRY(syscall(SYS_rt_sigaction, SIGRTMAX, NULL, &found, sizeof(uint64_t)));
        probe_true("disposition of the signal", found.handler == SIG_IGN);
    } while (probe_more());
    return probe_pass();
}
