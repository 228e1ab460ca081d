// SPDX-License-Identifier: Apache-2.0
// epoll remembers numbers that now refer to other files: one that was closed while a copy lives,
// one that was reused, and one number registered twice.
#include "probe.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int set = PROBE_TRY(epoll_create1(0));
    int first = PROBE_TRY(eventfd(0, EFD_NONBLOCK)), second = PROBE_TRY(eventfd(0, EFD_NONBLOCK));
    int high = PROBE_TRY(fcntl(first, F_DUPFD, 200)), kept;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 1};
    PROBE_TRY(epoll_ctl(set, EPOLL_CTL_ADD, high, &event)); // registers the first file
    PROBE_TRY(dup2(second, high));                          // the number now refers to the second
    event.data.u32 = 2;
    PROBE_TRY(epoll_ctl(set, EPOLL_CTL_ADD, high, &event));
    PROBE_TRY(close(high));
    kept = PROBE_TRY(dup(second));
    PROBE_TRY(close(second));
    do {
        probe_ready();
        event.data.u32 = 3;
        PROBE_SABOTAGE("first", PROBE_TRY(close(first)); first = PROBE_TRY(eventfd(0, 0)));
        struct epoll_event got[4];
        probe_equal("ready before", 0, epoll_wait(set, got, 4, 0));
        eventfd_t value;
        PROBE_TRY(eventfd_write(first, 1));
        probe_equal("first: ready", 1, epoll_wait(set, got, 4, 0));
        probe_equal("first: data word", 1, got[0].data.u32);
        PROBE_TRY(eventfd_read(first, &value));
        PROBE_TRY(eventfd_write(kept, 1));
        probe_equal("second: ready", 1, epoll_wait(set, got, 4, 0));
        probe_equal("second: data word", 2, got[0].data.u32);
        PROBE_TRY(eventfd_read(kept, &value));
        probe_equal("the number is free", -1, fcntl(high, F_GETFD));
    } while (probe_more());
    return probe_pass();
}
