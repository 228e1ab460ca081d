// SPDX-License-Identifier: Apache-2.0
// setitimer(ITIMER_VIRTUAL and ITIMER_PROF): time left, and ticks while the CPU is used.
#include "probe.h"

#include <sys/time.h>

enum { LONG = 1000000, SLACK = 3600 };

static volatile int ticks;

static void tick(int number)
{
    (void)number;
    ticks++;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int kinds[] = {ITIMER_VIRTUAL, ITIMER_PROF};
    const char *names[] = {"time left of ITIMER_VIRTUAL", "time left of ITIMER_PROF"};
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    PROBE_TRY(sigaction(SIGVTALRM, &action, NULL));
    PROBE_TRY(sigaction(SIGPROF, &action, NULL));
    const struct itimerval far_off = {.it_value.tv_sec = LONG};
    const struct itimerval soon = {.it_value.tv_usec = 2000}, none = {0};
    do {
        for (int i = 0; i < 2; i++) {
            PROBE_TRY(setitimer(kinds[i], &far_off, NULL));
        }
        probe_ready();
        PROBE_SABOTAGE("ITIMER_PROF", setitimer(ITIMER_PROF, &none, NULL));
        for (int i = 0; i < 2; i++) {
            struct itimerval found;
            PROBE_TRY(getitimer(kinds[i], &found));
            probe_within(names[i], LONG - SLACK, LONG, found.it_value.tv_sec);
            PROBE_TRY(setitimer(kinds[i], &soon, NULL));
            for (ticks = 0; ticks == 0;) {
                // uses the CPU
            }
        }
    } while (probe_more());
    return probe_pass();
}
