// SPDX-License-Identifier: Apache-2.0
// SS_AUTODISARM: inside the handler no alternate stack is set, afterwards the old one is.
#include "probe.h"

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

static unsigned char stack[262144];

static void on_signal(int number)
{
    stack_t found;
    (void)number;
    probe_ready();
    PROBE_TRY(sigaltstack(NULL, &found));
    probe_equal("alternate stack inside the handler", SS_DISABLE, found.ss_flags);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const stack_t alternate = {
        .ss_sp = stack, .ss_size = sizeof stack, .ss_flags = (int)SS_AUTODISARM};
    PROBE_TRY(sigaltstack(&alternate, NULL));
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    PROBE_TRY(sigaction(SIGUSR1, &action, NULL));
    do {
        stack_t found;
        PROBE_TRY(raise(SIGUSR1));
        PROBE_SABOTAGE("stack", sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL));
        PROBE_TRY(sigaltstack(NULL, &found));
        probe_equal("place of the stack after", (long long)(intptr_t)stack,
                    (long long)(intptr_t)found.ss_sp);
        probe_equal("flags of the stack after", (int)SS_AUTODISARM, found.ss_flags);
    } while (probe_more());
    return probe_pass();
}
