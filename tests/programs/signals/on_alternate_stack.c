// SPDX-License-Identifier: Apache-2.0
// A handler runs on the alternate stack while the program is ready: frame, SS_ONSTACK, and the
// return to the interrupted code.
#include "probe.h"

static unsigned char stack[262144];
static volatile int was_there;

static void on_signal(int number)
{
    unsigned char frame[1000];
    stack_t found;
    probe_fill(frame, sizeof frame, (unsigned)number);
    probe_ready();
    PROBE_SABOTAGE("frame", frame[10] ^= 1);
    probe_filled("frame on the alternate stack", frame, sizeof frame, (unsigned)number);
    probe_true("place of the frame", &frame[0] > &stack[0] && &frame[0] < &stack[sizeof stack]);
    PROBE_TRY(sigaltstack(NULL, &found));
    probe_equal("state of the alternate stack", SS_ONSTACK, found.ss_flags);
    was_there = 1;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    PROBE_TRY(sigaltstack(&alternate, NULL));
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    PROBE_TRY(sigaction(SIGUSR1, &action, NULL));
    do {
        stack_t found;
        was_there = 0;
        PROBE_TRY(raise(SIGUSR1));
        probe_equal("return from the handler", 1, was_there);
        PROBE_TRY(sigaltstack(NULL, &found));
        probe_equal("state of the stack after the handler", 0, found.ss_flags);
    } while (probe_more());
    return probe_pass();
}
