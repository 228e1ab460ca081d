// SPDX-License-Identifier: Apache-2.0
// Waits with a timeout, by the functions of the C library: they continue with the remaining time,
// so they end neither early nor with EINTR.
#include "wait_table.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <threads.h>

static int ends[2], set;
static sigset_t awaited, nothing_blocked;

static long in_ms(struct timespec time)
{
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static long by_sigtimedwait(long number, struct timespec time)
{
    (void)number;
    return sigtimedwait(&awaited, NULL, &time);
}

static long by_poll(long number, struct timespec time)
{
    (void)number;
    struct pollfd ready = {.fd = ends[0], .events = POLLIN};
    return poll(&ready, 1, (int)in_ms(time));
}

static long by_ppoll(long number, struct timespec time)
{
    (void)number;
    struct pollfd ready = {.fd = ends[0], .events = POLLIN};
    return ppoll(&ready, 1, &time, &nothing_blocked);
}

static long by_select(long number, struct timespec time)
{
    (void)number;
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(ends[0], &readable);
    struct timeval limit = {.tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / 1000};
    return select(ends[0] + 1, &readable, NULL, NULL, &limit);
}

static long by_pselect(long number, struct timespec time)
{
    (void)number;
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(ends[0], &readable);
    return pselect(ends[0] + 1, &readable, NULL, NULL, &time, &nothing_blocked);
}

static long by_epoll_wait(long number, struct timespec time)
{
    (void)number;
    struct epoll_event event;
    return epoll_wait(set, &event, 1, (int)in_ms(time));
}

static long by_epoll_pwait(long number, struct timespec time)
{
    (void)number;
    struct epoll_event event;
    return epoll_pwait(set, &event, 1, (int)in_ms(time), &nothing_blocked);
}

static long by_nanosleep(long number, struct timespec time)
{
    (void)number;
    return nanosleep(&time, NULL);
}

static long by_clock_nanosleep(long number, struct timespec time)
{
    (void)number;
    errno = clock_nanosleep(CLOCK_BOOTTIME, 0, &time, NULL);
    return errno == 0 ? 0 : -1;
}

static long by_thrd_sleep(long number, struct timespec time)
{
    (void)number;
    const int result = thrd_sleep(&time, NULL);
    errno = result == -1 ? EINTR : 0; // -1 means interrupted
    return result;
}

static const struct timed_wait waits[] = {
    {"sigtimedwait", SYS_rt_sigtimedwait, by_sigtimedwait, -1, EAGAIN},
    {"poll", SYS_poll, by_poll, 0, 0},
    {"ppoll", SYS_ppoll, by_ppoll, 0, 0},
    {"select", SYS_pselect6, by_select, 0, 0},
    {"pselect", SYS_pselect6, by_pselect, 0, 0},
    {"epoll_wait", SYS_epoll_wait, by_epoll_wait, 0, 0},
    {"epoll_pwait", SYS_epoll_pwait, by_epoll_pwait, 0, 0},
    {"nanosleep", SYS_clock_nanosleep, by_nanosleep, 0, 0},
    {"clock_nanosleep", SYS_clock_nanosleep, by_clock_nanosleep, 0, 0},
    {"thrd_sleep", SYS_clock_nanosleep, by_thrd_sleep, 0, 0},
};

enum { WAITS = sizeof waits / sizeof waits[0] };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    sigemptyset(&nothing_blocked);
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGRTMIN + 3);
    PROBE_ZERO(pthread_sigmask(SIG_BLOCK, &awaited, NULL));
    PROBE_TRY(pipe(ends));
    set = PROBE_TRY(epoll_create1(0));
    PROBE_TRY(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &(struct epoll_event){.events = EPOLLIN}));
    do {
        begin_table(waits, WAITS);
        probe_ready();
        PROBE_SABOTAGE("sleep", end_a_day_early());
        PROBE_SABOTAGE("moment", ask_for_a_longer_moment());
        check_table(waits, WAITS);
    } while (probe_more());
    return probe_pass();
}
