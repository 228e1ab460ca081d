// SPDX-License-Identifier: Apache-2.0
// A repeating timerfd whose expirations are not read: it keeps counting.
#include "probe.h"

#include <poll.h>
#include <sys/timerfd.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = PROBE_TRY(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    const struct itimerspec fast = {.it_value.tv_nsec = 1000000, .it_interval.tv_nsec = 1000000};
    const struct itimerspec none = {0};
    PROBE_TRY(timerfd_settime(fd, 0, &fast, NULL));
    do {
        PROBE_TRY(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1));
        probe_ready();
        PROBE_SABOTAGE("expirations", timerfd_settime(fd, 0, &none, NULL));
        uint64_t count = 0;
        probe_equal("expirations: bytes", sizeof count, read(fd, &count, sizeof count));
        probe_within("expirations", 1, 1000000000, (long long)count);
        struct itimerspec found;
        PROBE_TRY(timerfd_gettime(fd, &found));
        probe_equal("interval", 1000000, found.it_interval.tv_nsec);
        // Of a timer that has just expired no time is left for a moment, as of one that is off.
        struct pollfd again = {.fd = fd, .events = POLLIN};
        probe_equal("it goes on", 1, PROBE_TRY(poll(&again, 1, 60000)));
    } while (probe_more());
    return probe_pass();
}
