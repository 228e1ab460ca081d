// SPDX-License-Identifier: Apache-2.0
// Timers with so short an interval that they expire while the remaining time is queried.
#include "probe.h"

#include <poll.h>
#include <sys/timerfd.h>

enum { TIMERS = 64, INTERVAL = 2000 };

int main(int argc, char **argv)
{
    int fds[TIMERS];
    const struct itimerspec fast = {.it_value.tv_nsec = INTERVAL, .it_interval.tv_nsec = INTERVAL};
    const struct itimerspec unset = {.it_interval.tv_nsec = INTERVAL};
    const struct itimerspec none = {0};
    probe_start(argc, argv);
    for (int i = 0; i < TIMERS; i++) {
        fds[i] = PROBE_TRY(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
        PROBE_TRY(timerfd_settime(fds[i], 0, &fast, NULL));
    }
    const int idle = PROBE_TRY(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    PROBE_TRY(timerfd_settime(idle, 0, &unset, NULL));
    do {
        probe_ready();
        PROBE_SABOTAGE("interval", timerfd_settime(fds[TIMERS / 2], 0, &none, NULL));
        for (int i = 0; i < TIMERS; i++) {
            struct itimerspec found;
            uint64_t count = 0;
            PROBE_TRY(timerfd_gettime(fds[i], &found));
            probe_equal("interval", INTERVAL, found.it_interval.tv_nsec);
            struct pollfd expired = {.fd = fds[i], .events = POLLIN};
            probe_equal("timers that expire", 1, PROBE_TRY(poll(&expired, 1, 60000)));
            probe_equal("expirations: bytes", sizeof count, read(fds[i], &count, sizeof count));
            probe_within("expirations", 1, 100000000000, (long long)count);
        }
        struct pollfd expired = {.fd = idle, .events = POLLIN};
        probe_equal("timers that are not set and expire", 0, PROBE_TRY(poll(&expired, 1, 1)));
    } while (probe_more());
    return probe_pass();
}
