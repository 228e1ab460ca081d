// SPDX-License-Identifier: Apache-2.0
// Blocking calls that are made by number: syscall(SYS_futex, …). Inside the C library's
// syscall() nothing reveals afterwards which call it was. This one does (cryo_syscall), and
// turns waits into calls whose remaining time is known, as interposed_waits.cpp does for the
// named functions.
#include "agent/advice.hpp"
#include "agent/cut_call.hpp"
#include "agent/interposed.hpp"
#include "agent/socket_wait.hpp"
#include "agent/timed_wait.hpp"
#include "base/clock.hpp"
#include "sys/raw.hpp"

#include <array>
#include <cerrno>
#include <dlfcn.h>
#include <linux/futex.h>
#include <poll.h>
#include <unistd.h>

namespace cryo::agent {

namespace {

constexpr long landlock_restrict_self = 446; // for older headers

// Calls that wait; setsockopt, which may give a socket a limit; madvise, which is recorded;
// process_vm_writev, which is counted; landlock_restrict_self, which nothing shows afterwards;
// prctl, for the reason in interposed_prctl.cpp; exec, for the reason in interposed_exec.cpp; and
// calls that close descriptors, as in interposed_descriptors.cpp.
constexpr std::array<long, 44> taken = {
    SYS_poll,
    SYS_select,
    SYS_pause,
    SYS_nanosleep,
    SYS_semop,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_rt_sigtimedwait,
    SYS_futex,
    SYS_rt_sigsuspend,
    SYS_io_getevents,
    SYS_semtimedop,
    SYS_clock_nanosleep,
    SYS_epoll_wait,
    SYS_pselect6,
    SYS_ppoll,
    SYS_epoll_pwait,
    SYS_io_pgetevents,
    epoll_pwait2_number,
    SYS_execve,
    SYS_execveat,
    SYS_setsockopt,
    SYS_read,
    SYS_readv,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_recvmmsg,
    SYS_accept,
    SYS_accept4,
    SYS_write,
    SYS_writev,
    SYS_sendto,
    SYS_sendmsg,
    SYS_sendmmsg,
    SYS_connect,
    SYS_sendfile,
    SYS_madvise,
    SYS_process_vm_writev,
    SYS_prctl,
    SYS_close,
    SYS_close_range,
    SYS_dup2,
    SYS_dup3,
    landlock_restrict_self,
};

constexpr std::array<uint64_t, 8> bits()
{
    std::array<uint64_t, 8> set = {};
    for (const long number : taken)
        set[static_cast<size_t>(number) / 64] |= uint64_t(1) << (number % 64);
    return set;
}

constexpr int64_t second = 1'000'000'000;
constexpr long mask_size = 8;

timespec span(int64_t ns)
{
    return {.tv_sec = ns / second, .tv_nsec = ns % second};
}

const timespec *as_time(long argument)
{
    return reinterpret_cast<const timespec *>(argument);
}

const char *text(long argument)
{
    return reinterpret_cast<const char *>(argument);
}

char *const *texts(long argument)
{
    return reinterpret_cast<char *const *>(argument);
}

long as_argument(const void *pointer)
{
    return reinterpret_cast<long>(pointer);
}

long plain(long number, const long (&a)[6])
{
    return cryo_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// Keeps the limit, argument number `where`, in a TimedWait, so that the wait can be resumed.
long noted(long number, const long (&a)[6], int where)
{
    if (!TimedWait::takes(as_time(a[where])))
        return plain(number, a);
    TimedWait wait(*as_time(a[where]));
    long with[6];
    for (int i = 0; i < 6; i++)
        with[i] = i == where ? as_argument(wait.limit()) : a[i];
    return plain(number, with);
}

long poll_for(long waited, long count, int64_t ns, long mask)
{
    timespec limit = span(ns);
    return cryo_syscall(SYS_ppoll, waited, count, as_argument(&limit), mask, mask_size, 0);
}

// Like timed_epoll_wait() of interposed_waits.cpp.
long epoll_for(const long (&a)[6], int64_t left, long mask)
{
    const auto look = [&] { return cryo_syscall(SYS_epoll_wait, a[0], a[1], a[2], 0, 0, 0); };
    long found = look();
    const int64_t end = clock_ns(CLOCK_MONOTONIC) + left;
    for (; found == 0 && left > 0; left = end - clock_ns(CLOCK_MONOTONIC)) {
        pollfd waited = {.fd = static_cast<int>(a[0]), .events = POLLIN, .revents = 0};
        const long ready = poll_for(as_argument(&waited), 1, left, mask);
        if (ready <= 0)
            return ready;
        found = look();
    }
    return found;
}

int told(long result)
{
    if (!sys::failed(result))
        return static_cast<int>(result);
    errno = static_cast<int>(-result);
    return -1;
}

// A call on a possible socket with a limit: like the functions of interposed_sockets.cpp.
long on_socket(long number, const long (&a)[6], const SocketUse &use)
{
    if (!any_socket_limits.load(std::memory_order_relaxed))
        return plain(number, a);
    const auto wait = [](pollfd *waited, nfds_t count, timespec *limit, const sigset_t *mask) {
        return told(cryo_syscall(SYS_ppoll, as_argument(waited), static_cast<long>(count),
                                 as_argument(limit), as_argument(mask), mask_size, 0));
    };
    const long result = socket_call(static_cast<int>(a[0]), use, wait, [&]() -> long {
        const long answer = plain(number, a);
        return sys::failed(answer) ? told(answer) : answer;
    });
    return result == -1 ? -errno : result;
}

// Makes a call that sleeps until all data is moved, also if a checkpoint cuts it short.
long on_whole(long number, const long (&a)[6], const SocketUse &use)
{
    const bool receives_it = number == SYS_recvfrom;
    const int fd = static_cast<int>(a[0]);
    return whole(fd, text(a[1]), static_cast<size_t>(a[2]), [&](size_t done) -> long {
        const long moved = static_cast<long>(done);
        if (receives_it && moved != 0 && !is_stream(fd))
            return 0;
        long rest[6] = {a[0], a[1] + moved, a[2] - moved, a[3], a[4], a[5]};
        if (receives_it && moved != 0)
            rest[4] = rest[5] = 0; // the sender's address is the first byte's
        else if (number == SYS_sendto)
            rest[3] = flags_after(done, static_cast<int>(a[3]));
        return on_socket(number, rest, use);
    });
}

int64_t from_ms(long timeout)
{
    constexpr int64_t ms = 1'000'000;
    return static_cast<int>(timeout) * ms;
}

long do_call(long number, const long (&a)[6])
{
    timespec rest = {};
    switch (number) {
    case SYS_nanosleep:
        return plain(number, {a[0], a[1] != 0 ? a[1] : as_argument(&rest), 0, 0, 0, 0});
    case SYS_clock_nanosleep:
        return plain(number, {a[0], a[1], a[2], a[3] != 0 ? a[3] : as_argument(&rest), 0, 0});
    case SYS_poll:
        return from_ms(a[2]) > 0 ? poll_for(a[0], a[1], from_ms(a[2]), 0) : plain(number, a);
    case SYS_epoll_wait:
        return from_ms(a[3]) > 0 ? epoll_for(a, from_ms(a[3]), 0) : plain(number, a);
    case SYS_epoll_pwait:
        return from_ms(a[3]) > 0 ? epoll_for(a, from_ms(a[3]), a[4]) : plain(number, a);
    case epoll_pwait2_number:
        return TimedWait::takes(as_time(a[3]))
                   ? epoll_for(a, as_time(a[3])->tv_sec * second + as_time(a[3])->tv_nsec, a[4])
                   : plain(number, a);
    case SYS_rt_sigtimedwait:
        return noted(number, a, 2);
    case SYS_semtimedop:
        return noted(number, a, 3);
    case SYS_io_getevents:
    case SYS_io_pgetevents:
        return noted(number, a, 4);
    case SYS_setsockopt:
        if (sets_socket_limit(static_cast<int>(a[1]), static_cast<int>(a[2])))
            any_socket_limits.store(true);
        return plain(number, a);
    case SYS_recvfrom:
        return receives_whole(static_cast<int>(a[3])) ? on_whole(number, a, receives)
                                                      : on_socket(number, a, receives);
    case SYS_read:
    case SYS_readv:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_accept:
    case SYS_accept4:
        return on_socket(number, a, receives);
    case SYS_sendto:
        return sends_whole(static_cast<int>(a[3])) ? on_whole(number, a, sends)
                                                   : on_socket(number, a, sends);
    case SYS_write:
        return on_whole(number, a, sends);
    case SYS_writev:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_sendfile:
        return on_socket(number, a, sends);
    case SYS_connect:
        return on_socket(number, a, connects);
    case SYS_execve:
        return execve(text(a[0]), texts(a[1]), texts(a[2])) == 0 ? 0 : -errno;
    case SYS_execveat:
        return execveat(static_cast<int>(a[0]), text(a[1]), texts(a[2]), texts(a[3]),
                        static_cast<int>(a[4])) == 0
                   ? 0
                   : -errno;
    case SYS_close:
        return close(static_cast<int>(a[0])) == 0 ? 0 : -errno;
    case SYS_close_range:
        return close_range(static_cast<unsigned>(a[0]), static_cast<unsigned>(a[1]),
                           static_cast<int>(a[2])) == 0
                   ? 0
                   : -errno;
    case SYS_dup2:
    case SYS_dup3: {
        const int from = static_cast<int>(a[0]);
        const int to = static_cast<int>(a[1]);
        const int fd = number == SYS_dup2 ? dup2(from, to) : dup3(from, to, static_cast<int>(a[2]));
        return fd >= 0 ? fd : -errno;
    }
    case SYS_madvise: {
        const Advising noticed(static_cast<int>(a[2]));
        return plain(number, a);
    }
    case SYS_process_vm_writev: {
        const MemoryWrite counted;
        return plain(number, a);
    }
    case landlock_restrict_self: {
        const long result = plain(number, a);
        if (!sys::failed(result))
            know_confined();
        return result;
    }
    case SYS_prctl: {
        const bool told =
            passes_calls_on(static_cast<int>(a[0]), static_cast<unsigned long>(a[1])) &&
            begin_passing_calls();
        const long result = plain(number, a);
        if (told && sys::failed(result))
            withdraw_passing_calls();
        return result;
    }
    case SYS_futex: // only this command takes a relative time
        return (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT ? noted(number, a, 3) : plain(number, a);
    default:
        return plain(number, a);
    }
}

} // namespace

extern "C" {

extern const std::array<uint64_t, 8> cryo_taken_calls;
extern constinit const std::array<uint64_t, 8> cryo_taken_calls = bits();
constinit void *cryo_real_syscall = nullptr;

long cryo_taken_call(long number, long a, long b, long c, long d, long e, long f)
{
    const long result = do_call(number, {a, b, c, d, e, f});
    if (!sys::failed(result))
        return result;
    errno = static_cast<int>(-result);
    return -1;
}

} // extern "C"

void find_real_syscall()
{
    cryo_real_syscall = dlsym(RTLD_NEXT, "syscall");
}

} // namespace cryo::agent
