// SPDX-License-Identifier: Apache-2.0
// epoll_wait(2) without a timeout.
#include "probe.h"

#include <sys/epoll.h>

static int ends[2], set;

static long call(void *unused)
{
    (void)unused;
    struct epoll_event event = {0};
    const int count = epoll_wait(set, &event, 1, -1);
    return count == 1 ? event.data.fd : count;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(pipe(ends));
    set = PROBE_TRY(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN, .data.fd = 4711};
    PROBE_TRY(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
    do {
        struct probe_sleeper sleeper;
        probe_sleep_in(&sleeper, SYS_epoll_wait, call, NULL);
        probe_ready();
        PROBE_SABOTAGE("epoll_wait", write(ends[1], "x", 1); probe_await("end", &sleeper.done));
        probe_still_asleep("epoll_wait", &sleeper);
        PROBE_TRY(write(ends[1], "x", 1));
        probe_woken("data of epoll_wait", &sleeper, 4711, 0);
        char byte;
        PROBE_TRY(read(ends[0], &byte, 1));
    } while (probe_more());
    return probe_pass();
}
