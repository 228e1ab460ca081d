// SPDX-License-Identifier: Apache-2.0
// TCP connections that nobody has accepted yet, and into which nothing was written: they are made
// again, between the same addresses, and left to the listening socket of the program.
#include "base/patience.hpp"
#include "resources/descriptor_text.hpp"
#include "resources/socket/open_more.hpp"
#include "restore/open_parts.hpp"
#include "restore/tcp_calls.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <utility>

namespace cryo::restore {

using image::SocketState;
using Address = resources::TcpAddress;

namespace {

using Clock = std::chrono::steady_clock;

// Connections that come within a shorter time have no order that the next checkpoint could see
// (look/unaccepted.cpp).
constexpr auto apart = std::chrono::milliseconds(50);

bool is_tcp(const image::Socket &socket)
{
    return (socket.domain == AF_INET || socket.domain == AF_INET6) && socket.kind == SOCK_STREAM;
}

bool has_addresses(const image::Socket &socket)
{
    return Address(socket.local).is_of(socket.domain) && Address(socket.peer).is_of(socket.domain);
}

// A socket that is to connect; nullptr: the record of this open file is not about one.
const image::Socket *caller_of(const Planning &p, uint32_t open_file)
{
    const auto found = p.saved.sockets().find(open_file);
    if (found == p.saved.sockets().end())
        return nullptr;
    const image::Socket &saved = found->second;
    return is_tcp(saved) && saved.state == SocketState::pair && saved.peer_open_file == 0 &&
                   has_addresses(saved)
               ? &saved
               : nullptr;
}

// The first of those that have closed their ends, which is taken off the list.
Result<image::Socket> take_closed(image::Bytes &closed, const image::Socket &listener)
{
    const size_t size = listener.domain == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    image::Socket caller;
    if (closed.size() >= 2 * size) {
        caller.domain = listener.domain;
        caller.kind = listener.kind;
        caller.protocol = listener.protocol;
        caller.peer = closed.first(size);
        caller.local = closed.subspan(size, size);
        closed = closed.subspan(2 * size);
    }
    if (!has_addresses(caller))
        return Error(EINVAL, "a connection without addresses waits to be accepted");
    return caller;
}

// Connections that have arrived at a listening socket.
uint32_t arrived_at(int listener)
{
    tcp_info info = {};
    socklen_t size = sizeof(info);
    return getsockopt(listener, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_unacked : 0;
}

// Anybody may connect to the listening socket by now, as to any server that has just started.
Result<void> await_connection(int caller, int listener, uint32_t before)
{
    const Clock::time_point end = Clock::now() + local_delivery_limit;
    for (;;) {
        pollfd connected = {caller, POLLOUT, 0};
        poll(&connected, 1, 1);
        int refused = 0;
        socklen_t size = sizeof(refused);
        if (getsockopt(caller, SOL_SOCKET, SO_ERROR, &refused, &size) == 0 && refused != 0)
            return Error(refused, strerror(refused));
        if ((connected.revents & POLLOUT) != 0 && arrived_at(listener) > before)
            return {};
        if (Clock::now() > end)
            return Error(ETIMEDOUT, "it does not arrive at the socket that it waited at");
        if ((connected.revents & POLLOUT) != 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

class Queue
{
  public:
    Queue(Planning &p, const image::Socket &listener)
        : p_(p), listener_(listener), fd_(p.open_fds.at(listener.open_file))
    {}
    Queue(const Queue &) = delete;
    Queue &operator=(const Queue &) = delete;

    Result<void> fill(const image::Waiting &queue);

  private:
    Result<Fd> connect(const image::Socket &caller);
    Result<void> call_all(const image::Waiting &queue);

    Planning &p_;
    const image::Socket &listener_;
    int fd_;
    bool is_first_ = true;
};

Result<Fd> Queue::connect(const image::Socket &caller)
{
    if (Address(caller.peer).port() != Address(listener_.local).port())
        return Error(EINVAL, "a connection waits at a socket that it has not called");
    if (!std::exchange(is_first_, false))
        std::this_thread::sleep_for(apart);
    const uint32_t before = arrived_at(fd_);
    Result<Fd> made = when_free(Address(caller.local), [&] { return begin_call(caller); });
    if (!made)
        return made;
    if (Result<void> there = await_connection(made->get(), fd_, before); !there)
        return there.error().within(fmt::format(
            "connecting from {} to {}", Address(caller.local).text(), Address(caller.peer).text()));
    set_number(made->get(), SOL_SOCKET, SO_REUSEADDR, 1); // until all are made
    if (fcntl(made->get(), F_SETFL, 0) != 0)
        return Error::from_errno("setting the flags of a socket", errno);
    return made;
}

Result<void> Queue::call_all(const image::Waiting &queue)
{
    image::Bytes closed = queue.closed;
    for (size_t i = 0; i < queue.callers.size(); i++) {
        const uint32_t id = queue.callers[i];
        if (id == 0) {
            const Result<image::Socket> caller = take_closed(closed, listener_);
            if (!caller)
                return caller.error();
            if (const Result<Fd> made = connect(*caller); !made)
                return made.error();
            continue; // it is closed again
        }
        if (p_.redirected.contains(id))
            continue; // as if it had not called
        const image::Socket *caller = caller_of(p_, id);
        if (caller == nullptr || is_opened(p_, id))
            return Error(EINVAL, "an object that is no socket waits to be accepted");
        Result<Fd> made = connect(*caller);
        Result<void> kept =
            made ? keep_socket(p_, std::move(*made), *caller) : Result<void>(made.error());
        if (!kept)
            return kept.error().within(resources::descriptor_text(descriptor_of(p_, id)));
    }
    return {};
}

Result<void> Queue::fill(const image::Waiting &queue)
{
    // The backlog may have been made smaller since they came, and what holds back a connection
    // until it has data would hold back these.
    const int backlog = static_cast<int>(listener_.backlog);
    const uint32_t defer = number(fd_, IPPROTO_TCP, TCP_DEFER_ACCEPT);
    if (listen(fd_, std::max(backlog, static_cast<int>(queue.callers.size()))) != 0)
        return Error::from_errno("listening again", errno);
    set_number(fd_, IPPROTO_TCP, TCP_DEFER_ACCEPT, 0);
    Result<void> done = call_all(queue);
    set_number(fd_, IPPROTO_TCP, TCP_DEFER_ACCEPT, defer);
    if (done && listen(fd_, backlog) != 0)
        return Error::from_errno("listening again", errno);
    return done;
}

// No process listens there now.
Result<void> open_closed(Planning &p, const image::Waiting &queue)
{
    for (size_t i = 0; i < queue.callers.size(); i++) {
        const uint32_t id = queue.callers[i];
        if (id == 0 || p.redirected.contains(id))
            continue;
        const image::Socket *caller = caller_of(p, id);
        if (caller == nullptr || is_opened(p, id))
            return Error(EINVAL, "an object that is no socket waits to be accepted");
        Fd made = tcp_socket(caller->domain);
        if (!made || fcntl(made.get(), F_SETFL, 0) != 0)
            return Error::from_errno("making a socket", errno);
        if (Result<void> kept = keep_socket(p, std::move(made), *caller); !kept)
            return kept;
        p.plan.notices.push_back(fmt::format("{}, a connection, is closed now",
                                             resources::descriptor_text(descriptor_of(p, id))));
    }
    return {};
}

// Sets the options of one, and shuts it down, when all are made.
Result<void> settle_caller(Planning &p, const image::Socket &caller, bool is_connected)
{
    const int fd = p.open_fds.at(caller.open_file);
    if (Result<void> set = set_socket_options(fd, caller); !set)
        return set;
    resources::choose_congestion(*opening_of(p), fd, caller);
    if (is_connected && caller.shutdown != 0 &&
        shutdown(fd, static_cast<int>(caller.shutdown) - 1) != 0)
        return Error::from_errno("shutting a socket down", errno);
    return {};
}

Result<void> settle(Planning &p)
{
    for (const image::Waiting &queue : p.saved.of<image::Waiting>()) {
        const auto listener = p.saved.sockets().find(queue.listener);
        if (listener == p.saved.sockets().end() || !is_tcp(listener->second))
            continue;
        for (size_t i = 0; i < queue.callers.size(); i++) {
            const uint32_t id = queue.callers[i];
            if (id == 0 || p.redirected.contains(id))
                continue;
            Result<void> done =
                settle_caller(p, p.saved.sockets().at(id), !p.redirected.contains(queue.listener));
            if (!done)
                return done;
        }
    }
    return {};
}

} // namespace

std::vector<resources::TcpEnd> waiting_callers(const Planning &p)
{
    std::vector<resources::TcpEnd> ends;
    for (const image::Waiting &queue : p.saved.of<image::Waiting>()) {
        const auto listener = p.saved.sockets().find(queue.listener);
        if (listener == p.saved.sockets().end() || !is_tcp(listener->second))
            continue;
        image::Bytes closed = queue.closed;
        for (size_t i = 0; i < queue.callers.size(); i++) {
            const uint32_t id = queue.callers[i];
            const image::Socket *caller = id != 0 ? caller_of(p, id) : nullptr;
            if (caller != nullptr)
                ends.push_back({Address(caller->local), Address(caller->peer)});
            if (id != 0)
                continue;
            if (const Result<image::Socket> gone = take_closed(closed, listener->second))
                ends.push_back({Address(gone->local), Address(gone->peer)});
        }
    }
    return ends;
}

Result<void> open_waiting(Planning &p)
{
    for (const image::Waiting &queue : p.saved.of<image::Waiting>()) {
        const auto listener = p.saved.sockets().find(queue.listener);
        if (listener == p.saved.sockets().end() || !is_tcp(listener->second))
            continue; // connect_waiting() has checked it
        const bool listens = !p.redirected.contains(queue.listener);
        if (listens && listener->second.state != SocketState::listening)
            return Error(EINVAL, "connections wait at a socket that does not listen");
        if (Result<void> done =
                listens ? Queue(p, listener->second).fill(queue) : open_closed(p, queue);
            !done)
            return done;
    }
    return settle(p);
}

} // namespace cryo::restore
