// SPDX-License-Identifier: Apache-2.0
// setitimer(ITIMER_REAL): a long timer keeps its remaining time, and a short one keeps ticking.
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
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    PROBE_TRY(sigaction(SIGALRM, &action, NULL));
    const struct itimerval far_off = {.it_value.tv_sec = LONG, .it_interval.tv_sec = 77};
    const struct itimerval period = {.it_value.tv_usec = 3000, .it_interval.tv_usec = 3000};
    const struct itimerval none = {0};
    do {
        struct itimerval found;
        PROBE_TRY(setitimer(ITIMER_REAL, &far_off, NULL));
        ticks = 0;
        probe_ready();
        PROBE_SABOTAGE("time left", setitimer(ITIMER_REAL, &none, NULL));
        PROBE_TRY(getitimer(ITIMER_REAL, &found));
        probe_within("time left", LONG - SLACK, LONG, found.it_value.tv_sec);
        probe_equal("interval", 77, found.it_interval.tv_sec);
        probe_equal("ticks of the far-off timer", 0, ticks);

        PROBE_TRY(setitimer(ITIMER_REAL, &period, NULL));
        ticks = 0;
        probe_await("tick of a periodic timer", &ticks);
        PROBE_TRY(setitimer(ITIMER_REAL, &none, NULL));
    } while (probe_more());
    return probe_pass();
}
