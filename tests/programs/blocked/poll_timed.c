// SPDX-License-Identifier: Apache-2.0
// poll, select and epoll_wait with a timeout of a day do not time out, and are woken.
#include "probe.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

static int ends[2], set;

static long call_poll(void *unused)
{
    (void)unused;
    struct pollfd ready = {.fd = ends[0], .events = POLLIN};
    return poll(&ready, 1, 86400 * 1000);
}

static long call_select(void *unused)
{
    (void)unused;
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(ends[0], &readable);
    struct timeval day = {.tv_sec = 86400};
    const int count = select(ends[0] + 1, &readable, NULL, NULL, &day);
    return count == 1 && (day.tv_sec > 86400 || day.tv_sec < 3600) ? -2 : count;
}

static long call_epoll(void *unused)
{
    (void)unused;
    struct epoll_event event;
    return epoll_wait(set, &event, 1, 86400 * 1000);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(pipe(ends));
    set = PROBE_TRY(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN};
    PROBE_TRY(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
    do {
        struct probe_sleeper sleepers[3];
        const char *names[] = {"poll with a timeout", "select with a timeout",
                               "epoll_wait with a timeout"};
        probe_sleep_in(&sleepers[0], SYS_poll, call_poll, NULL);
        probe_sleep_in(&sleepers[1], SYS_pselect6, call_select, NULL);
        probe_sleep_in(&sleepers[2], SYS_epoll_wait, call_epoll, NULL);
        probe_ready();
        PROBE_SABOTAGE("timeout", write(ends[1], "x", 1); probe_await("end", &sleepers[0].done));
        for (int i = 0; i < 3; i++) {
            probe_still_asleep(names[i], &sleepers[i]);
        }
        PROBE_TRY(write(ends[1], "x", 1));
        for (int i = 0; i < 3; i++) {
            probe_woken(names[i], &sleepers[i], 1, 0);
        }
        char byte;
        PROBE_TRY(read(ends[0], &byte, 1));
    } while (probe_more());
    return probe_pass();
}
