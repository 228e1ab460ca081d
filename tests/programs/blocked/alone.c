// SPDX-License-Identifier: Apache-2.0
// The only thread of a process sleeps in the system call; the runner wakes it by a FIFO.
#include "probe.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

static int fifo;

enum way { READ, POLL, SELECT, EPOLL };

// The read in the main loop sleeps.
static int by_read(void)
{
    return 1;
}

static int by_poll(void)
{
    struct pollfd ready = {.fd = fifo, .events = POLLIN};
    return poll(&ready, 1, -1);
}

static int by_select(void)
{
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(fifo, &readable);
    return select(fifo + 1, &readable, NULL, NULL, NULL);
}

static int by_epoll(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int set = PROBE_TRY(epoll_create1(0));
    PROBE_TRY(epoll_ctl(set, EPOLL_CTL_ADD, fifo, &event));
    const int count = epoll_wait(set, &event, 1, -1);
    close(set);
    return count;
}

static int (*const sleep_by[])(void) = {by_read, by_poll, by_select, by_epoll};

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(mkfifo(probe_path("wake"), 0600));
    fifo = PROBE_TRY(open(probe_path("wake"), O_RDWR));
    do {
        char byte = 0;
        probe_announce();
        probe_equal("descriptors that woke the program", 1, sleep_by[WAY]());
        PROBE_SABOTAGE("byte", read(fifo, &byte, 1); write(fifo, "?", 1));
        probe_equal("bytes read", 1, read(fifo, &byte, 1));
        probe_await_check();
        probe_equal("byte read", '!', byte);
    } while (probe_more());
    return probe_pass();
}
