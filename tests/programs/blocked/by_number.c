// SPDX-License-Identifier: Apache-2.0
// Waits by syscall(2), with and without a timeout: they continue with the remaining time.
#include "wait_table.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

enum { KERNEL_SET = 8 };

static int ends[2], set;
static uint64_t awaited;
static uint32_t word;

static long make_call(long number, struct timespec limit)
{
    const int ms = (int)(limit.tv_sec * 1000 + limit.tv_nsec / 1000000);
    struct timeval short_limit = {.tv_sec = limit.tv_sec, .tv_usec = limit.tv_nsec / 1000};
    struct pollfd ready = {.fd = ends[0], .events = POLLIN};
    struct epoll_event event;
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(ends[0], &readable);
    switch (number) {
    case SYS_rt_sigtimedwait:
        return syscall(number, &awaited, NULL, &limit, KERNEL_SET);
    case SYS_poll:
        return syscall(number, &ready, 1, ms);
    case SYS_ppoll:
        return syscall(number, &ready, 1, &limit, NULL, KERNEL_SET);
    case SYS_select:
        return syscall(number, ends[0] + 1, &readable, NULL, NULL, &short_limit);
    case SYS_pselect6:
        return syscall(number, ends[0] + 1, &readable, NULL, NULL, &limit, NULL);
    case SYS_epoll_wait:
        return syscall(number, set, &event, 1, ms);
    case SYS_epoll_pwait:
        return syscall(number, set, &event, 1, ms, NULL, KERNEL_SET);
    case SYS_nanosleep:
        return syscall(number, &limit, NULL);
    case SYS_clock_nanosleep:
        return syscall(number, CLOCK_MONOTONIC, 0, &limit, NULL);
    default:
        return syscall(number, &word, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0);
    }
}

static const struct timed_wait waits[] = {
    {"rt_sigtimedwait", SYS_rt_sigtimedwait, make_call, -1, EAGAIN},
    {"poll", SYS_poll, make_call, 0, 0},
    {"ppoll", SYS_ppoll, make_call, 0, 0},
    {"select", SYS_select, make_call, 0, 0},
    {"pselect6", SYS_pselect6, make_call, 0, 0},
    {"epoll_wait", SYS_epoll_wait, make_call, 0, 0},
    {"epoll_pwait", SYS_epoll_pwait, make_call, 0, 0},
    {"nanosleep", SYS_nanosleep, make_call, 0, 0},
    {"clock_nanosleep", SYS_clock_nanosleep, make_call, 0, 0},
    {"futex", SYS_futex, make_call, -1, ETIMEDOUT},
};

enum { WAITS = sizeof waits / sizeof waits[0] };

static long call_pause(void *unused)
{
    (void)unused;
    return syscall(SYS_pause);
}

static long call_futex(void *unused)
{
    (void)unused;
    return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMIN + 3);
    memcpy(&awaited, &blocked, sizeof awaited);
    PROBE_ZERO(pthread_sigmask(SIG_BLOCK, &blocked, NULL));
    PROBE_TRY(pipe(ends));
    set = PROBE_TRY(epoll_create1(0));
    PROBE_TRY(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &(struct epoll_event){.events = EPOLLIN}));
    do {
        struct probe_sleeper pausing, waiting;
        probe_sleep_in(&pausing, SYS_pause, call_pause, NULL);
        probe_sleep_in(&waiting, SYS_futex, call_futex, NULL);
        begin_table(waits, WAITS);
        probe_ready();
        PROBE_SABOTAGE("pause", pthread_kill(pausing.thread, SIGUSR1);
                       probe_await("end", &pausing.done));
        end_by_signal("pause", &pausing);
        end_by_signal("futex without a time", &waiting);
        PROBE_SABOTAGE("sleep", end_a_day_early());
        PROBE_SABOTAGE("moment", ask_for_a_longer_moment());
        check_table(waits, WAITS);
    } while (probe_more());
    return probe_pass();
}
