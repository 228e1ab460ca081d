// SPDX-License-Identifier: Apache-2.0
// epoll: members, events, edge trigger, one-shot, data words, and what is ready now.
#include "probe.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int set = PROBE_TRY(epoll_create1(EPOLL_CLOEXEC));
    int level = PROBE_TRY(eventfd(0, EFD_NONBLOCK)), once = PROBE_TRY(eventfd(0, EFD_NONBLOCK));
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0xfeedfacecafebeef};
    PROBE_TRY(epoll_ctl(set, EPOLL_CTL_ADD, level, &event));
    event = (struct epoll_event){.events = EPOLLIN | EPOLLONESHOT, .data.ptr = &set};
    PROBE_TRY(epoll_ctl(set, EPOLL_CTL_ADD, once, &event));
    struct epoll_event got[4];
    do {
        PROBE_TRY(eventfd_write(level, 1));
        probe_ready();
        PROBE_SABOTAGE("member", epoll_ctl(set, EPOLL_CTL_DEL, level, NULL));
        event = (struct epoll_event){.events = EPOLLIN, .data.u64 = 1};
        PROBE_SABOTAGE("data word", epoll_ctl(set, EPOLL_CTL_MOD, level, &event));
        probe_equal("ready members", 1, epoll_wait(set, got, 4, 0));
        probe_equal("data word", (long long)0xfeedfacecafebeef, (long long)got[0].data.u64);
        eventfd_t value;
        PROBE_TRY(eventfd_read(level, &value));
        PROBE_TRY(eventfd_write(once, 1));
        probe_equal("one-shot member the first time", 1, epoll_wait(set, got, 4, 0));
        probe_true("pointer of the one-shot member", got[0].data.ptr == &set);
        probe_equal("one-shot member the second time", 0, epoll_wait(set, got, 4, 0));
        PROBE_TRY(eventfd_read(once, &value));
        event = (struct epoll_event){.events = EPOLLIN | EPOLLONESHOT, .data.ptr = &set};
        PROBE_TRY(epoll_ctl(set, EPOLL_CTL_MOD, once, &event));
    } while (probe_more());
    return probe_pass();
}
