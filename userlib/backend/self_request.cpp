// SPDX-License-Identifier: Apache-2.0
#include "backend/self_request.hpp"

#include "base/passing.hpp"
#include "capture/proc.hpp"
#include "capture/session.hpp"
#include "libcr/self.h"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace cryo::backend {

namespace {

constexpr int most_strangers = 64; // that are in front of the program

bool receive(int from, uint32_t what, int &result)
{
    cryo_self_message message = {};
    const ssize_t n = receive_packet(from, room_in(message));
    result = message.result;
    return n == sizeof(message) && message.magic == CRYO_SELF_MAGIC && message.what == what;
}

bool send_save(int to, int file, bool waits)
{
    cryo_self_message message = {CRYO_SELF_MAGIC, CRYO_SELF_SAVE, 0, waits ? 1U : 0U};
    return send_with(to, bytes_of(message), std::span(&file, 1)) == sizeof(message);
}

} // namespace

bool receive_back(int from, int &result)
{
    return receive(from, CRYO_SELF_BACK, result);
}

void send_go(int to)
{
    const cryo_self_message message = {CRYO_SELF_MAGIC, CRYO_SELF_GO, 0, 0};
    static_cast<void>(send(to, &message, sizeof(message), MSG_NOSIGNAL));
}

Result<SelfRequest> SelfRequest::of(pid_t pid)
{
    Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!process)
        return Error::from_errno(fmt::format("process {}", pid), errno);
    return SelfRequest(pid, std::move(process));
}

// Follows the program, which changes its digits. Without digits it has not registered yet.
Result<void> SelfRequest::listen()
{
    const Result<std::string> maps = capture::Proc(pid_).read("maps");
    if (!maps) // if it has ended, has_input() says so
        return maps.error().code() == EACCES ? Result<void>(maps.error()) : Result<void>();
    constexpr std::string_view beginning = "/memfd:" CRYO_SELF_MEMORY;
    const size_t found = maps->find(beginning);
    if (found == std::string::npos)
        return {};
    const std::string digits = maps->substr(found + beginning.size(), CRYO_SELF_DIGITS);
    return listener_ && digits == listens_at_ ? Result<void>() : listen_at(digits);
}

// While another socket has the address there is no listener: another checkpoint may have it, which
// ends, or another user, who does not know the next one.
Result<void> SelfRequest::listen_at(const std::string &digits)
{
    const capture::Proc proc(pid_);
    const Result<std::string> status = proc.read("status");
    const Result<std::string> ns = proc.link("ns/pid");
    if (!status || !ns)
        return (status ? ns : status).error();
    std::string_view inner = capture::field(*status, "NSpid");
    int known_as = pid_;
    while (!inner.empty())
        known_as = static_cast<int>(capture::take_number(inner));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
                                CRYO_SELF_ADDRESS, ns->c_str(), known_as, digits.c_str());
    listener_ = Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1) +
                      static_cast<socklen_t>(length);
    if (!listener_ ||
        bind(listener_.get(), reinterpret_cast<const sockaddr *>(&address), size) != 0 ||
        ::listen(listener_.get(), most_strangers) != 0) {
        const int failure = errno;
        listener_.reset();
        if (failure != EADDRINUSE)
            return Error::from_errno("a socket for the program", failure);
    }
    listens_at_ = digits;
    return {};
}

// Waits for a fifth of a second at most.
Result<bool> SelfRequest::has_input(int fd, uint64_t deadline_ns) const
{
    constexpr int look_again_ms = 200;
    pollfd look[] = {{fd, POLLIN, 0}, {process_.get(), POLLIN, 0}};
    if (poll(look, 2, look_again_ms) < 0 && errno != EINTR)
        return Error::from_errno("waiting for the program", errno);
    if ((look[0].revents & (POLLIN | POLLHUP)) != 0)
        return true;
    if ((look[1].revents & POLLIN) != 0)
        return Error(ESRCH, fmt::format("process {} has ended", pid_));
    if (Result<void> early = capture::check_deadline(deadline_ns); !early)
        return early.error();
    return false;
}

// Passes over strangers.
void SelfRequest::accept()
{
    for (int i = 0; i < most_strangers && !connection_; i++) {
        Fd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        ucred peer = {};
        socklen_t size = sizeof(peer);
        if (!connection)
            return;
        if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
            peer.pid == pid_)
            connection_ = std::move(connection);
    }
}

Result<void> SelfRequest::await(uint64_t deadline_ns)
{
    while (!connection_) {
        if (Result<void> there = listen(); !there)
            return there;
        const Result<bool> came = has_input(listener_ ? listener_.get() : -1, deadline_ns);
        if (!came && came.error().code() == ETIME && !listener_ && !listens_at_.empty())
            return Error(EBUSY, fmt::format("process {}: another checkpoint of it waits", pid_));
        if (!came)
            return came.error();
        if (*came)
            accept();
    }
    return {};
}

Result<void> SelfRequest::save(int file, bool waits, uint64_t deadline_ns)
{
    int result = 0;
    if (!send_save(connection_.get(), file, waits))
        return Error::from_errno(fmt::format("asking process {}", pid_), errno);
    Result<bool> came = false;
    while (came && !*came)
        came = has_input(connection_.get(), deadline_ns);
    if (!came)
        return came.error();
    if (!receive(connection_.get(), CRYO_SELF_SAVED, result))
        return Error(ESRCH, fmt::format("process {} has ended, or gone on without saving", pid_));
    if (result != 0)
        return Error::from_errno(fmt::format("process {}: its own function to save failed", pid_),
                                 result);
    return {};
}

void SelfRequest::let_go() const
{
    send_go(connection_.get());
}

void SelfRequest::signal(int number) const
{
    syscall(SYS_pidfd_send_signal, process_.get(), number, nullptr, 0);
}

} // namespace cryo::backend
