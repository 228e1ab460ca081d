// SPDX-License-Identifier: Apache-2.0
// timerfd: clock, time left, interval, and unread expirations.
#include "probe.h"

#include <poll.h>
#include <sys/timerfd.h>

enum { LONG = 1000000, SLACK = 3600 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int far_off = PROBE_TRY(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    int absolute = PROBE_TRY(timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK));
    int expired = PROBE_TRY(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK));
    const struct itimerspec in_days = {.it_value.tv_sec = LONG, .it_interval.tv_sec = 44};
    const struct itimerspec once = {.it_value.tv_nsec = 1}, none = {0};
    struct itimerspec at_noon = {0};
    PROBE_TRY(clock_gettime(CLOCK_REALTIME, &at_noon.it_value));
    at_noon.it_value.tv_sec += LONG;
    PROBE_TRY(timerfd_settime(absolute, TFD_TIMER_ABSTIME, &at_noon, NULL));
    do {
        PROBE_TRY(timerfd_settime(far_off, 0, &in_days, NULL));
        PROBE_TRY(timerfd_settime(expired, 0, &once, NULL));
        PROBE_TRY(poll(&(struct pollfd){.fd = expired, .events = POLLIN}, 1, -1));
        probe_ready();
        PROBE_SABOTAGE("time left", timerfd_settime(far_off, 0, &none, NULL));
        uint64_t count = 0;
        PROBE_SABOTAGE("expirations", read(expired, &count, sizeof count));
        struct itimerspec found;
        PROBE_TRY(timerfd_gettime(far_off, &found));
        probe_within("time left", LONG - SLACK, LONG, found.it_value.tv_sec);
        probe_equal("interval", 44, found.it_interval.tv_sec);
        PROBE_TRY(timerfd_gettime(absolute, &found));
        probe_within("time left of the absolute one", 1, LONG, found.it_value.tv_sec);
        probe_equal("reading the one that is not due", -1, read(far_off, &count, sizeof count));
        probe_equal("reading the expirations", sizeof count, read(expired, &count, sizeof count));
        probe_equal("expirations", 1, (long long)count);
    } while (probe_more());
    return probe_pass();
}
