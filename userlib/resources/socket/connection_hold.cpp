// SPDX-License-Identifier: Apache-2.0
#include "resources/socket/connection_hold.hpp"

#include "base/close_others.hpp"
#include "resources/socket/repair_mode.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::resources {

namespace {

constexpr char word_leave = 'l'; // the program has ended: what is held stays so
constexpr char word_undone = 'u';
constexpr int patience_ms = 10'000;

// The packet filter that we reach is that of our own network namespace.
Result<void> check_namespace(int fd)
{
    const Fd its(ioctl(fd, SIOCGSKNS));
    if (!its)
        return Error(EPERM, errno == EPERM
                                ? "it needs the capability CAP_NET_ADMIN in the network namespace"
                                : Error::from_errno("its network namespace", errno).text());
    struct stat there = {}, here = {};
    if (fstat(its.get(), &there) != 0 || stat("/proc/self/ns/net", &here) != 0)
        return Error::from_errno("comparing network namespaces", errno);
    if (there.st_ino != here.st_ino || there.st_dev != here.st_dev)
        return Error(EXDEV, "it belongs to another network namespace: run cr_checkpoint in that "
                            "one (nsenter --net)");
    return {};
}

} // namespace

Result<void> ConnectionHold::add(int fd, TcpEnd end)
{
    if (Result<void> here = check_namespace(fd); !here)
        return here;
    Held one{Fd(fcntl(fd, F_DUPFD_CLOEXEC, 3)), end, reuse_of(fd), {}};
    if (!one.fd)
        return Error::from_errno("keeping a connection open", errno);
    held_.push_back(std::move(one));
    return {};
}

Result<void> ConnectionHold::begin()
{
    if (Result<void> ready = can_hold_packets(); !ready)
        return ready;
    uint64_t chosen = 0;
    while (chosen == 0) {
        if (getrandom(&chosen, sizeof(chosen), 0) != sizeof(chosen) && errno != EINTR)
            return Error::from_errno("getrandom", errno);
    }
    number_ = chosen;
    if (Result<void> guarded = start_guard(); !guarded) {
        number_ = 0;
        return guarded;
    }
    std::vector<TcpEnd> ends;
    for (const Held &one : held_)
        ends.push_back(one.end);
    Result<void> held = hold_packets(number_, ends);
    if (!held)
        undo();
    return held;
}

void ConnectionHold::remember(size_t number, const TcpPosition &taken)
{
    held_[number].taken = taken;
}

Result<void> ConnectionHold::silence()
{
    for (const Held &one : held_) {
        if (!one.taken)
            continue;
        if (Result<void> silent = silence_tcp(one.fd.get(), *one.taken); !silent)
            return silent.error().within(
                fmt::format("{} to {}", one.end.local.text(), one.end.peer.text()));
    }
    return {};
}

void ConnectionHold::leave()
{
    dismiss_guard(false);
    held_.clear();
    number_ = 0;
}

void ConnectionHold::undo()
{
    dismiss_guard(true);
    held_.clear();
    number_ = 0;
}

// First the sockets: what arrives then finds them as they were.
void ConnectionHold::undo_all()
{
    for (const Held &one : held_)
        end_repair(one.fd.get(), one.reuse);
    static_cast<void>(pass_packets(number_));
}

// Neither a terminal's signals nor those for the process group of the command end the guard.
void ConnectionHold::guard(int from)
{
    setsid();
    prctl(PR_SET_NAME, "cr_hold");
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, nullptr);
    std::vector<int> kept = {from};
    for (const Held &one : held_)
        kept.push_back(one.fd.get());
    std::ranges::sort(kept);
    close_others(kept);
    char word = 0;
    ssize_t n = 0;
    do
        n = recv(from, &word, 1, 0);
    while (n < 0 && errno == EINTR);
    if (n == 1 && word == word_leave)
        _exit(0);
    undo_all();
    static_cast<void>(send(from, &word_undone, 1, MSG_NOSIGNAL));
    _exit(0);
}

Result<void> ConnectionHold::start_guard()
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return Error::from_errno("socketpair", errno);
    Fd ours(ends[0]);
    const Fd its(ends[1]);
    guard_ = fork();
    if (guard_ < 0)
        return Error::from_errno("fork", errno);
    if (guard_ == 0)
        guard(its.get());
    to_guard_ = std::move(ours);
    return {};
}

// Waits until it has done its work. If it has been killed or stopped, its work is ours.
void ConnectionHold::dismiss_guard(bool undo)
{
    if (guard_ <= 0)
        return;
    char word = word_leave;
    if (!undo)
        static_cast<void>(send(to_guard_.get(), &word, 1, MSG_NOSIGNAL));
    shutdown(to_guard_.get(), SHUT_WR);
    pollfd answer = {to_guard_.get(), POLLIN, 0};
    int found = 0;
    do
        found = poll(&answer, 1, patience_ms);
    while (found < 0 && errno == EINTR);
    const bool undone = found == 1 && recv(to_guard_.get(), &word, 1, MSG_DONTWAIT) == 1;
    if (found != 1)
        kill(guard_, SIGKILL);
    if (undo && !undone)
        undo_all();
    while (waitpid(guard_, nullptr, 0) < 0 && errno == EINTR)
        ;
    guard_ = -1;
    to_guard_.reset();
}

} // namespace cryo::resources
