// SPDX-License-Identifier: Apache-2.0
// setitimer(ITIMER_REAL) that ticks while the program is ready keeps ticking.
#include "probe.h"

#include <sys/time.h>

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
    const struct itimerval period = {.it_value.tv_usec = 5000, .it_interval.tv_usec = 5000};
    const struct itimerval none = {0};
    PROBE_TRY(setitimer(ITIMER_REAL, &period, NULL));
    do {
        probe_await("tick before", &ticks);
        probe_ready();
        PROBE_SABOTAGE("interval", setitimer(ITIMER_REAL, &none, NULL));
        struct itimerval found;
        PROBE_TRY(getitimer(ITIMER_REAL, &found));
        probe_equal("interval in microseconds", 5000, found.it_interval.tv_usec);
        ticks = 0;
        probe_await("tick after", &ticks);
        ticks = 0;
    } while (probe_more());
    PROBE_TRY(setitimer(ITIMER_REAL, &none, NULL));
    return probe_pass();
}
