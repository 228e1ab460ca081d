// SPDX-License-Identifier: Apache-2.0
// epoll sets that only unreceived messages hold (SCM_RIGHTS). Members of one are a descriptor of
// the process and the other set; members of that are in flight, too.
#include "passing.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

enum { number_of_pipe = 200, number_of_timer = 201 }; // which nothing else gets

static void watch(int set, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event event = {.events = events, .data.u64 = data};
    PROBE_TRY(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}

// The data word of the only member that is ready.
static long long ready(const char *what, int set)
{
    struct epoll_event got[4];
    probe_equal(what, 1, epoll_wait(set, got, 4, 0));
    return (long long)got[0].data.u64;
}

static int moved(int fd, int number)
{
    PROBE_TRY(dup2(fd, number));
    PROBE_TRY(close(fd));
    return number;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const long long of_counter = (long long)0xfeedfacecafebeef, of_inner = 2, of_pipe = 3;
    const int counter = (int)PROBE_TRY(eventfd(0, EFD_NONBLOCK));
    do {
        int pair[2], ends[2], got[most_files], second[most_files];
        char text[8];
        struct epoll_event none[4];
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        PROBE_TRY(pipe(ends));
        const int pipe_end = moved(ends[0], number_of_pipe);
        const int timer =
            moved((int)PROBE_TRY(timerfd_create(CLOCK_MONOTONIC, 0)), number_of_timer);
        const int outer = (int)PROBE_TRY(epoll_create1(0)),
                  inner = (int)PROBE_TRY(epoll_create1(0));
        watch(outer, counter, EPOLLIN, (uint64_t)of_counter);
        watch(outer, inner, EPOLLIN, (uint64_t)of_inner);
        watch(inner, pipe_end, EPOLLIN | EPOLLONESHOT, (uint64_t)of_pipe);
        watch(inner, timer, EPOLLIN, 4);
        send_files(pair[0], "o", 1, 3, (int[]){outer, pipe_end, timer});
        send_files(pair[0], "i", 1, 1, &inner);
        close_files(4, (int[]){outer, inner, pipe_end, timer});
        probe_ready();

        probe_equal("descriptors with the outer set", 3, receive_files(pair[1], text, 1, got));
        probe_equal("descriptors with the inner set", 1, receive_files(pair[1], text, 1, second));
        PROBE_SABOTAGE("member of the process", epoll_ctl(got[0], EPOLL_CTL_DEL, counter, NULL));
        probe_equal("members that are ready", 0, epoll_wait(got[0], none, 4, 0));
        PROBE_TRY(eventfd_write(counter, 1));
        probe_equal("data word of the member of the process", of_counter,
                    ready("member of the process", got[0]));
        eventfd_t value;
        PROBE_TRY(eventfd_read(counter, &value));
        // By a number that the set knows, a member can be changed.
        struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT,
                                    .data.u64 = (uint64_t)of_pipe};
        PROBE_TRY(dup2(got[1], number_of_pipe));
        PROBE_SABOTAGE("number of the member in flight",
                       epoll_ctl(second[0], EPOLL_CTL_DEL, number_of_pipe, NULL));
        probe_equal("number of the member in flight", 0,
                    epoll_ctl(second[0], EPOLL_CTL_MOD, number_of_pipe, &event));
        PROBE_SABOTAGE("inner set", PROBE_TRY(close(second[0]));
                       second[0] = (int)PROBE_TRY(epoll_create1(0)));
        PROBE_TRY(write(ends[1], "more", 4));
        probe_equal("data word of the inner set", of_inner,
                    ready("inner set, as a member", got[0]));
        probe_equal("data word of the pipe", of_pipe, ready("pipe in flight", second[0]));
        probe_equal("one-shot member the second time", 0, epoll_wait(second[0], none, 4, 0));
        const struct itimerspec soon = {.it_value.tv_nsec = 1};
        PROBE_TRY(timerfd_settime(got[2], 0, &soon, NULL));
        probe_equal("members of the inner set, after a timer", 1,
                    epoll_wait(second[0], none, 4, 30000));
        probe_equal("data word of the timer", 4, (long long)none[0].data.u64);
        close_files(3, got);
        close_files(2, (int[]){number_of_pipe, second[0]});
        close(ends[1]);
        close_files(2, pair);
    } while (probe_more());
    return probe_pass();
}
