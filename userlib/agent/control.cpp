// SPDX-License-Identifier: Apache-2.0
// The control socket and the checkpoint signal: how a request reaches the program.
#include "agent/callbacks.hpp"
#include "agent/inherited.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <ucontext.h>

namespace cryo::agent {

namespace {

// Out of the way of numbers that programs use, yet small enough not to grow the kernel's table.
constexpr int control_fd_floor = 960;

char *put(char *to, const char *text)
{
    while (*text != 0)
        *to++ = *text++;
    return to;
}

char *put(char *to, unsigned long n)
{
    char digits[24];
    int count = 0;
    do {
        digits[count++] = static_cast<char>('0' + n % 10);
        n /= 10;
    } while (n != 0);
    while (count > 0)
        *to++ = digits[--count];
    return to;
}

uint64_t inode_of(int fd)
{
    struct stat status = {};
    return sys::failed(sys::call(SYS_fstat, fd, &status)) ? 0 : status.st_ino;
}

// Whoever may trace us may save us: ourselves and root.
bool peer_allowed(int connection)
{
    ucred peer = {};
    socklen_t size = sizeof(peer);
    if (sys::failed(sys::call(SYS_getsockopt, connection, SOL_SOCKET, SO_PEERCRED, &peer, &size)))
        return false;
    return peer.uid == 0 || peer.uid == static_cast<uid_t>(sys::call(SYS_geteuid));
}

bool connection_waits()
{
    pollfd look = {state.listener, POLLIN, 0};
    return sys::call(SYS_poll, &look, 1, 0) > 0 && (look.revents & POLLIN) != 0;
}

// Takes connections until there is none. A thread that finds another one at it leaves it to that
// one, which therefore looks again when it has ended.
void answer(void *frame)
{
    if (state.listener == 0)
        return; // meant for the program that was here before
    do {
        uint32_t idle = 0;
        if (!state.active.compare_exchange_strong(idle, 1))
            return;
        expect_connections();
        const auto connection = static_cast<int>(
            sys::call(SYS_accept4, state.listener, nullptr, nullptr, SOCK_CLOEXEC));
        if (connection >= 0 && peer_allowed(connection)) {
            // Asked for each time: after a restart that came back here, it may be another.
            begin_round(connection, static_cast<int>(sys::call(SYS_gettid)), frame);
            continue;
        }
        if (connection >= 0)
            sys::call(SYS_close, connection);
        state.active.store(0, std::memory_order_release);
        release_threads();
    } while (connection_waits());
}

} // namespace

// One checkpoint, seen by the thread that leads it. The frame stays small: it is saved, and after
// a restart this function goes on as if cryo_context_save had returned a second time.
// The leader goes last: what the program does next in this thread may be a signal to a thread that
// it knows to be asleep in a system call. (Where callbacks are still to end, so is everybody.)
void lead(int self, void *frame)
{
    Slot &slot = state.slots[max_threads];
    fill_facts(slot.facts, self, frame);
    const bool restarted = cryo_context_save(&slot.facts.context) != 0;
    if (restarted) {
        renew_client();
        after_restart();
    } else {
        serve_round();
        tell_lodger_to_go_on();
    }
    state.gone.store(0, std::memory_order_release);
    const bool over = end_image(restarted);
    if (restarted && !over)
        tell_alive();
    release_threads();
    if (!over)
        return;
    await_gone();
    if (restarted) {
        tell_alive();
        tell_end(0);
    }
}

void on_signal(int, siginfo_t *info, void *frame)
{
    keep_time_left(frame);
    const auto self = static_cast<int>(sys::call(SYS_gettid));
    const uint32_t barrier = round.barrier.load(std::memory_order_acquire);
    bool parked = false;
    if (info->si_code == SI_TKILL) {
        // The order of these two reads matters: see release_threads().
        const uint32_t generation = state.generation.load(std::memory_order_acquire);
        if (take_part(self, frame, generation))
            parked = true;
        else if (state.active.load(std::memory_order_acquire) == 0)
            answer(frame); // a request that had to wait for the last one
        else if (may_park() && park(self, frame, generation)) {
            parked = true;
            after_park(barrier);
        }
    } else if (info->si_code > 0) { // from the kernel: somebody has connected
        if (!tell_arrival(info->si_fd))
            answer(frame);
    }
    const bool enters_call = resume_call(frame);
    if (parked)
        tell_gone(enters_call);
}

long open_control()
{
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    char *end = put(address.sun_path + 1, "cryo.");
    char ns[64];
    // The name holds the pid namespace, "pid:[4026531836]": two containers may share a network.
    const long n = sys::call(SYS_readlinkat, AT_FDCWD, "/proc/self/ns/pid", ns, sizeof(ns) - 1);
    ns[n > 0 ? n : 0] = 0;
    end = put(end, ns);
    *end++ = '.';
    end = put(end, static_cast<unsigned long>(sys::call(SYS_getpid)));

    const long fd =
        sys::call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sys::failed(fd))
        return fd;
    long high = sys::call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, control_fd_floor);
    if (sys::failed(high))
        high = sys::call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 100); // a low RLIMIT_NOFILE
    if (!sys::failed(high))
        sys::call(SYS_close, fd);
    else
        high = fd;

    const long length = offsetof(sockaddr_un, sun_path) + (end - address.sun_path);
    f_owner_ex owner = {F_OWNER_PID, static_cast<int>(sys::call(SYS_getpid))};
    long result = sys::call(SYS_bind, high, &address, length);
    if (!sys::failed(result))
        result = sys::call(SYS_fcntl, high, F_SETSIG, state.signal);
    if (!sys::failed(result))
        result = sys::call(SYS_fcntl, high, F_SETOWN_EX, &owner);
    if (!sys::failed(result))
        result = sys::call(SYS_fcntl, high, F_SETFL, O_RDWR | O_NONBLOCK | O_ASYNC);
    if (!sys::failed(result))
        result = sys::call(SYS_listen, high, 4);
    if (sys::failed(result)) {
        sys::call(SYS_close, high);
        return result;
    }
    state.listener = static_cast<int>(high);
    state.pid = static_cast<int>(sys::call(SYS_getpid));
    state.listener_inode = inode_of(state.listener);
    return 0;
}

void forget_control()
{
    // The program may have closed our descriptor and use its number for something of its own.
    if (inode_of(state.listener) == state.listener_inode)
        sys::call(SYS_close, state.listener);
}

} // namespace cryo::agent
