// SPDX-License-Identifier: Apache-2.0
#include "backend/self_request.hpp"

#include "backend/outline.hpp"
#include "base/clock.hpp"
#include "base/passing.hpp"
#include "capture/session/patience.hpp"
#include "libcr/self.h"
#include "look/proc.hpp"
#include "look/regions.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace cryo::backend {

namespace {

constexpr uint64_t shortest_pause_ns = 100'000'000, longest_pause_ns = 2'000'000'000;

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

Result<void> SelfRequest::check_alive() const
{
    pollfd end = {process_.get(), POLLIN, 0};
    if (poll(&end, 1, 0) > 0)
        return Error(ESRCH, fmt::format("process {} has ended", pid_));
    return {};
}

// The name of the page that the program has made: it identifies the program's own file, wherever it
// is mapped. Empty: the program has not registered yet.
Result<std::string> SelfRequest::digits() const
{
    constexpr std::string_view beginning = "/memfd:" CRYO_SELF_MEMORY;
    const Result<std::string> maps = capture::Proc(pid_).read("maps");
    if (Result<void> alive = check_alive(); !alive)
        return alive.error();
    if (!maps)
        return maps.error();
    std::string found;
    capture::for_each_mapping(*maps, [&](const capture::Mapping &mapping) {
        if (mapping.path.starts_with(beginning) && mapping.deleted && !mapping.shared &&
            mapping.prot == PROT_READ &&
            mapping.path.size() == beginning.size() + CRYO_SELF_DIGITS &&
            mapping.path.find_first_not_of("0123456789abcdef", beginning.size()) ==
                std::string::npos)
            found = mapping.path.substr(beginning.size());
    });
    return found;
}

// The program changes the digits of the name while no checkpoint is connected. So they stay while
// this listener exists and no other process takes the name, unless the program executes another one
// or registers anew.
Result<void> SelfRequest::follow()
{
    const uint64_t begun = now_ns();
    if (begun < follows_at_ns_)
        return {};
    const Result<std::string> found = digits();
    if (!found)
        return found.error();
    const bool settled = listener_ && *found == listens_at_;
    if (!found->empty() && !settled) {
        if (Result<void> listens = listen_at(*found); !listens)
            return listens;
    }
    const uint64_t end = now_ns();
    pause_ns_ = settled ? std::min(2 * pause_ns_, longest_pause_ns)
                        : std::max(shortest_pause_ns, 10 * (end - begun)); // of many mappings
    follows_at_ns_ = end + pause_ns_;
    return {};
}

// While another socket has the address there is no listener: another checkpoint may have it, which
// ends, or another user, who does not know the next one.
Result<void> SelfRequest::listen_at(const std::string &digits)
{
    const capture::Proc proc(pid_);
    const Result<std::string> status = proc.read("status");
    const Result<std::string> ns = proc.link("ns/pid");
    if (Result<void> alive = check_alive(); !alive)
        return alive;
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
        ::listen(listener_.get(), SOMAXCONN) != 0) {
        const int failure = errno;
        listener_.reset();
        if (failure != EADDRINUSE)
            return Error::from_errno("a socket for the program", failure);
    }
    listens_at_ = digits;
    return {};
}

// Waits a short time at most.
Result<bool> SelfRequest::has_input(int fd, uint64_t deadline_ns) const
{
    constexpr int moment_ms = 100;
    pollfd look[] = {{fd, POLLIN, 0}, {process_.get(), POLLIN, 0}};
    if (poll(look, 2, moment_ms) < 0 && errno != EINTR)
        return Error::from_errno("waiting for the program", errno);
    if ((look[0].revents & (POLLIN | POLLHUP)) != 0)
        return true;
    if (Result<void> alive = check_alive(); !alive)
        return alive.error();
    if (Result<void> early = capture::check_deadline(deadline_ns); !early)
        return early.error();
    return false;
}

void SelfRequest::follow_soon()
{
    pause_ns_ = shortest_pause_ns;
    follows_at_ns_ = std::min(follows_at_ns_, now_ns() + pause_ns_);
}

// Passes over strangers.
void SelfRequest::accept()
{
    for (int i = 0; i < SOMAXCONN && !connection_; i++) {
        Fd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        ucred peer = {};
        socklen_t size = sizeof(peer);
        if (!connection)
            return;
        if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
            peer.pid == pid_)
            connection_ = std::move(connection);
        else
            follow_soon(); // the program may have found the queue full
    }
}

// The error to report when the deadline has ended the wait.
Error SelfRequest::early(const Error &error) const
{
    if (error.code() != ETIME || listener_ || listens_at_.empty())
        return error;
    return {EBUSY, fmt::format("process {}: until --time was over, another socket had the name at "
                               "which the program looks for requests: another checkpoint of it "
                               "waits, or another user has taken the name",
                               pid_)};
}

Result<void> SelfRequest::await(uint64_t deadline_ns)
{
    while (!connection_) {
        if (Result<void> followed = follow(); !followed)
            return followed;
        const Result<bool> came = has_input(listener_ ? listener_.get() : -1, deadline_ns);
        if (!came)
            return early(came.error());
        if (!*came)
            continue;
        accept();
        // A crowd hides neither the program's end, since another process may have its number then,
        // nor the deadline.
        if (Result<void> alive = check_alive(); !alive)
            return alive;
        if (Result<void> in_time = capture::check_deadline(deadline_ns); !connection_ && !in_time)
            return in_time;
    }
    listener_.reset(); // the program's next points are not to wait for this checkpoint
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
