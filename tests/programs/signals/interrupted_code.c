// SPDX-License-Identifier: Apache-2.0
// Code interrupted in the middle by a handler in which the program is ready: its registers, flags
// and vector state are unchanged when it continues.
#include "probe.h"

static volatile int handled;

static void on_signal(int number)
{
    (void)number;
    probe_ready();
    handled = 1;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    signal(SIGUSR1, on_signal);
    do {
        uint64_t sum = 0;
        double product = 1;
        handled = 0;
        for (uint64_t i = 1; i <= 1000; i++) {
            sum += i * i;
            product *= 1.0 + 1.0 / (double)i;
            if (i == 500) {
                PROBE_TRY(raise(SIGUSR1));
            }
        }
        PROBE_SABOTAGE("sum", sum++);
        probe_equal("handler", 1, handled);
        probe_equal("sum of the interrupted loop", 333833500, (long long)sum);
        probe_equal("product of the interrupted loop", 1001, (long long)(product + 0.5));
    } while (probe_more());
    return probe_pass();
}
