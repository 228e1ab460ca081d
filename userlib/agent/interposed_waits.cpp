// SPDX-License-Identifier: Apache-2.0
// Interposes functions of the C library, so that a wait which a checkpoint interrupts continues
// with the time that was left (interrupted_call.cpp). The kernel reports that time only to some
// calls; if the program uses another one, it is replaced by one of those:
//
//     nanosleep, clock_nanosleep, usleep, thrd_sleep without `rest`      with one
//     poll with a timeout                                                ppoll
//     epoll_wait, epoll_pwait, epoll_pwait2 with a timeout               ppoll of the epoll set
//     sigtimedwait, semtimedop: a TimedWait (interposed_signals.cpp, interposed_ipc.cpp)
//
// A wait that ends at once needs no more system calls than before.
//
// interposed_syscall.cpp does the same for waits that are made by syscall().
#include "agent/interposed.hpp"
#include "agent/timed_wait.hpp"
#include "base/clock.hpp"

#include <cerrno>
#include <poll.h>
#include <sys/epoll.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

namespace cryo::agent {

namespace {

struct {
    int (*nanosleep)(const timespec *, timespec *);
    int (*clock_nanosleep)(clockid_t, int, const timespec *, timespec *);
    int (*poll)(pollfd *, nfds_t, int);
    int (*ppoll)(pollfd *, nfds_t, const timespec *, const sigset_t *);
    int (*epoll_wait)(int, epoll_event *, int, int);
    int (*epoll_pwait)(int, epoll_event *, int, int, const sigset_t *);
    int (*epoll_pwait2)(int, epoll_event *, int, const timespec *, const sigset_t *);
    int (*thrd_sleep)(const timespec *, timespec *);
} real;

template <class F>
F known(F &function)
{
    return known_by(function, find_real_wait_functions);
}

constexpr int64_t ms = 1'000'000;

timespec span(int64_t ns)
{
    return {.tv_sec = ns / (1000 * ms), .tv_nsec = ns % (1000 * ms)};
}

int timed_epoll_wait(int set, epoll_event *events, int most, int64_t left, const sigset_t *mask)
{
    int found = known(real.epoll_wait)(set, events, most, 0);
    if (found != 0)
        return found;
    const int64_t end = clock_ns(CLOCK_MONOTONIC) + left;
    // Another thread may have taken the events.
    for (; found == 0 && left > 0; left = end - clock_ns(CLOCK_MONOTONIC)) {
        pollfd waited = {.fd = set, .events = POLLIN, .revents = 0};
        const timespec limit = span(left);
        const int ready = known(real.ppoll)(&waited, 1, &limit, mask);
        if (ready <= 0)
            return ready;
        found = known(real.epoll_wait)(set, events, most, 0);
    }
    return found;
}

int any_poll(pollfd *waited, nfds_t count, int timeout)
{
    if (timeout <= 0)
        return known(real.poll)(waited, count, timeout);
    const timespec limit = span(timeout * ms);
    return known(real.ppoll)(waited, count, &limit, nullptr);
}

} // namespace

void find_real_wait_functions()
{
    find(real.nanosleep, "nanosleep");
    find(real.clock_nanosleep, "clock_nanosleep");
    find(real.poll, "poll");
    find(real.ppoll, "ppoll");
    find(real.epoll_wait, "epoll_wait");
    find(real.epoll_pwait, "epoll_pwait");
    find(real.epoll_pwait2, "epoll_pwait2");
    find(real.thrd_sleep, "thrd_sleep");
}

} // namespace cryo::agent

using namespace cryo::agent;

extern "C" {

CRYO_INTERPOSED int nanosleep(const timespec *time, timespec *rest)
{
    timespec left = {};
    return known(real.nanosleep)(time, rest != nullptr ? rest : &left);
}

CRYO_INTERPOSED int clock_nanosleep(clockid_t clock, int flags, const timespec *time,
                                    timespec *rest)
{
    timespec left = {};
    return known(real.clock_nanosleep)(clock, flags, time, rest != nullptr ? rest : &left);
}

CRYO_INTERPOSED int usleep(useconds_t time)
{
    const timespec whole = span(int64_t(time) * 1000);
    return nanosleep(&whole, nullptr);
}

CRYO_INTERPOSED int poll(pollfd *waited, nfds_t count, int timeout)
{
    return any_poll(waited, count, timeout);
}

// poll() compiled with _FORTIFY_SOURCE.
CRYO_INTERPOSED int __poll_chk(pollfd *waited, nfds_t count, int timeout, size_t bytes)
{
    if (bytes / sizeof(*waited) < count)
        __builtin_trap();
    return any_poll(waited, count, timeout);
}

CRYO_INTERPOSED int epoll_wait(int set, epoll_event *events, int most, int timeout)
{
    if (timeout <= 0)
        return known(real.epoll_wait)(set, events, most, timeout);
    return timed_epoll_wait(set, events, most, timeout * ms, nullptr);
}

CRYO_INTERPOSED int epoll_pwait(int set, epoll_event *events, int most, int timeout,
                                const sigset_t *mask)
{
    if (timeout <= 0)
        return known(real.epoll_pwait)(set, events, most, timeout, mask);
    return timed_epoll_wait(set, events, most, timeout * ms, mask);
}

CRYO_INTERPOSED int epoll_pwait2(int set, epoll_event *events, int most, const timespec *limit,
                                 const sigset_t *mask)
{
    if (!TimedWait::takes(limit) && known(real.epoll_pwait2) != nullptr)
        return real.epoll_pwait2(set, events, most, limit, mask);
    if (!TimedWait::takes(limit)) {
        errno = ENOSYS; // this C library does not have it
        return -1;
    }
    return timed_epoll_wait(set, events, most, limit->tv_sec * 1000 * ms + limit->tv_nsec, mask);
}

CRYO_INTERPOSED int thrd_sleep(const timespec *time, timespec *rest)
{
    timespec left = {};
    return known(real.thrd_sleep)(time, rest != nullptr ? rest : &left);
}

} // extern "C"
