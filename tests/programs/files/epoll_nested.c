// SPDX-License-Identifier: Apache-2.0
// An epoll set inside another one, and an edge-triggered member whose edge was taken.
#include "probe.h"

#include <sys/epoll.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int inner = PROBE_TRY(epoll_create1(0)), outer = PROBE_TRY(epoll_create1(0));
    int ends[2];
    PROBE_TRY(pipe2(ends, O_NONBLOCK));
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = 11}, got;
    PROBE_TRY(epoll_ctl(inner, EPOLL_CTL_ADD, ends[0], &event));
    event = (struct epoll_event){.events = EPOLLIN, .data.u32 = 22};
    PROBE_TRY(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event));
    do {
        probe_ready();
        PROBE_SABOTAGE("nested", epoll_ctl(outer, EPOLL_CTL_DEL, inner, NULL));
        PROBE_TRY(write(ends[1], "x", 1));
        probe_equal("nested set", 1, epoll_wait(outer, &got, 1, 0));
        probe_equal("its data word", 22, got.data.u32);
        probe_equal("edge of the member", 1, epoll_wait(inner, &got, 1, 0));
        probe_equal("data word of the member", 11, got.data.u32);
        probe_equal("the same edge again", 0, epoll_wait(inner, &got, 1, 0));
        char byte;
        PROBE_TRY(read(ends[0], &byte, 1));
    } while (probe_more());
    return probe_pass();
}
