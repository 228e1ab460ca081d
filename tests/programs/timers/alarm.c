// SPDX-License-Identifier: Apache-2.0
// alarm: the remaining seconds continue, and an alarm that is due arrives.
#include "probe.h"

enum { LONG = 100000, SLACK = 3600 };

static volatile int rang;

static void ring(int number)
{
    (void)number;
    rang = 1;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    signal(SIGALRM, ring);
    do {
        rang = 0;
        alarm(LONG);
        probe_ready();
        PROBE_SABOTAGE("seconds left", alarm(0));
        const unsigned left = alarm(0);
        probe_within("seconds left", LONG - SLACK, LONG, left);
        probe_equal("rang before its time", 0, rang);
        ualarm(1000, 0);
        probe_await("alarm that is due", &rang);
    } while (probe_more());
    return probe_pass();
}
