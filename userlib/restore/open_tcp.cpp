// SPDX-License-Identifier: Apache-2.0
// TCP connections between members are made again, between the same addresses, by
// connecting and accepting: at the program's own listening socket, or at a temporary one.
#include "base/patience.hpp"
#include "resources/descriptor_text.hpp"
#include "resources/socket/open_more.hpp"
#include "resources/socket/tcp_lingering.hpp"
#include "restore/open_parts.hpp"
#include "restore/tcp_calls.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <thread>

namespace cryo::restore {

using image::SocketState;
using resources::TcpEnd;
using Address = resources::TcpAddress;

namespace {

using Clock = std::chrono::steady_clock;

struct Listener {
    int fd;
    uint32_t segment_limit; // its own
};

class Connections
{
  public:
    explicit Connections(Planning &p) : p_(p) {}
    Result<void> open(const image::Socket *accepted, const image::Socket *caller);

  private:
    void find_listeners(const Address &address, uint32_t domain,
                        std::vector<Listener> &listeners) const;
    Fd listen_at(const Address &address, uint32_t domain);
    Result<void> await_listener(const image::Socket *&accepted, const image::Socket *&caller,
                                std::vector<Listener> &listeners);
    Result<void> keep(Fd fd, const image::Socket &end);
    static Result<Fd> answer(const std::vector<Listener> &listeners, int caller,
                             const Address &from);

    Planning &p_;
    struct Moment { // a listening socket that exists while connections are made
        Address at;
        Fd fd;
    };
    std::vector<Moment> moments_;
};

// All of the program's listeners that may get the call, or else a temporary one.
void Connections::find_listeners(const Address &address, uint32_t domain,
                                 std::vector<Listener> &listeners) const
{
    for (const auto &[id, socket] : p_.saved.sockets()) {
        const auto fd = p_.open_fds.find(id);
        if (socket.state != SocketState::listening || socket.domain != domain ||
            fd == p_.open_fds.end() || p_.redirected.contains(id))
            continue;
        const Address at(socket.local);
        if (at.port() == address.port() && (at.is_any() || at.same_host(address)))
            listeners.push_back({fd->second, segment_limit(socket)});
    }
    for (const Moment &known : moments_) {
        if (listeners.empty() && known.at.same(address))
            listeners.push_back({known.fd.get(), 0});
    }
}

Fd Connections::listen_at(const Address &address, uint32_t domain)
{
    Fd fd = tcp_socket(domain);
    set_number(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(fd.get(), address.get(), address.size()) != 0 || listen(fd.get(), 1) != 0) {
        const int why = errno;
        fd.reset();
        errno = why;
    }
    return fd;
}

// Without a listener, either end can be the accepting one, and an address
// that an ended connection keeps is easier to get for the connecting one.
Result<void> Connections::await_listener(const image::Socket *&accepted,
                                         const image::Socket *&caller,
                                         std::vector<Listener> &listeners)
{
    find_listeners(Address(accepted->local), accepted->domain, listeners);
    if (!listeners.empty())
        return {};
    bool swapped = false;
    Result<Fd> made = when_free(Address(accepted->local), [&] {
        Fd fd = listen_at(Address(accepted->local), accepted->domain);
        const int why = errno;
        if (!fd && accepted->domain == caller->domain) {
            fd = listen_at(Address(caller->local), caller->domain);
            swapped = bool(fd);
        }
        errno = why;
        return fd;
    });
    if (!made)
        return made.error();
    if (swapped)
        std::swap(accepted, caller);
    listeners.push_back({made->get(), 0});
    moments_.push_back({Address(accepted->local), std::move(*made)});
    return {};
}

// Another client may come first, as with any server
// that has just started; its connection is closed.
Result<Fd> Connections::answer(const std::vector<Listener> &listeners, int caller,
                               const Address &from)
{
    const Clock::time_point end = Clock::now() + local_delivery_limit;
    std::vector<pollfd> wait;
    wait.reserve(listeners.size());
    for (const Listener &one : listeners)
        wait.push_back({one.fd, POLLIN, 0});
    while (Clock::now() < end) {
        poll(wait.data(), wait.size(), 20);
        for (const pollfd &one : wait) {
            if ((one.revents & POLLIN) == 0)
                continue;
            Fd accepted(accept4(one.fd, nullptr, nullptr, SOCK_CLOEXEC));
            if (accepted && Address::of_peer(accepted.get()).same(from))
                return accepted;
        }
        int refused = 0;
        socklen_t size = sizeof(refused);
        if (getsockopt(caller, SOL_SOCKET, SO_ERROR, &refused, &size) == 0 && refused != 0)
            return Error(refused,
                         fmt::format("connecting from {}: {}", from.text(), strerror(refused)));
    }
    return Error(ETIMEDOUT, fmt::format("connecting from {}: no connection arrives", from.text()));
}

// Makes room for the queued data, which a new connection would leave with
// its sender, as it would a last small piece. Sizes that the program has
// set are restored last; the kernel may choose the others again then.
void make_room(int fd, uint64_t size)
{
    if (number(fd, SOL_SOCKET, SO_RCVBUF) < size * 4)
        set_number(fd, SOL_SOCKET, SO_RCVBUF, static_cast<uint32_t>(size * 2));
    set_number(fd, SOL_SOCKET, SO_BUF_LOCK, 0);
    set_number(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

// Waits until the data sent again, and the end of the stream behind it, has arrived:
// usually at once. If it does not fit, the rest comes when the program reads.
void await_arrival(int fd, const image::Socket &saved, bool ended)
{
    uint64_t before = 0;
    for (Clock::time_point since = Clock::now();;) {
        int waits = 0;
        pollfd end = {fd, POLLRDHUP, 0};
        const bool has_end = poll(&end, 1, 0) == 1;
        if (ioctl(fd, FIONREAD, &waits) != 0)
            return;
        const auto now = static_cast<uint64_t>(waits);
        if (now >= saved.size && (has_end || !ended))
            return;
        if (now != before) {
            before = now;
            since = Clock::now();
        } else if (Clock::now() - since > std::chrono::milliseconds(500)) {
            return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

Result<void> Connections::open(const image::Socket *accepted, const image::Socket *caller)
{
    for (const image::Socket *end : {accepted, caller}) {
        if (!Address(end->local).is_of(end->domain) || !Address(end->peer).is_of(end->domain))
            return Error(EINVAL, "a connection without addresses");
    }
    std::vector<Listener> listeners;
    if (Result<void> done = await_listener(accepted, caller, listeners); !done)
        return done;
    const Address from(caller->local), hears(accepted->peer);
    // The program's listeners may block, and a client that has come may
    // be gone again. Nor may accepting wait for the caller's first data. What limits the segments
    // of the accepted end is its listener's.
    struct Before {
        int fd, flags;
        uint32_t defer, segment_limit;
    };
    std::vector<Before> changed;
    for (const auto &[fd, its_limit] : listeners) {
        changed.push_back(
            {fd, fcntl(fd, F_GETFL), number(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT), its_limit});
        fcntl(fd, F_SETFL, changed.back().flags | O_NONBLOCK);
        set_number(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 0);
        set_number(fd, IPPROTO_TCP, TCP_MAXSEG, segment_limit(*accepted));
    }
    Result<Fd> two = when_free(from, [&] { return begin_call(*caller); });
    Result<Fd> one = two ? answer(listeners, two->get(), hears) : Result<Fd>(two.error());
    for (const auto &[fd, flags, defer, its_limit] : changed) {
        fcntl(fd, F_SETFL, flags);
        set_number(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, defer);
        set_number(fd, IPPROTO_TCP, TCP_MAXSEG, its_limit);
    }
    if (!one)
        return one.error();
    fcntl(two->get(), F_SETFL, 0);
    for (const auto &[fd, saved] :
         {std::pair(one->get(), accepted), std::pair(two->get(), caller)}) {
        set_number(fd, SOL_SOCKET, SO_REUSEADDR, 1); // until all are made
        make_room(fd, saved->size);
    }
    if (Result<void> done = keep(std::move(*one), *accepted); !done)
        return done;
    return keep(std::move(*two), *caller);
}

// An end that the user has redirected is closed when its queued data has been sent.
Result<void> Connections::keep(Fd fd, const image::Socket &end)
{
    if (p_.redirected.count(end.open_file) != 0) {
        p_.unfilled.push_back({end.peer_open_file, 0, std::move(fd)});
        return {};
    }
    if (p_.redirected.count(end.peer_open_file) == 0)
        p_.unfilled.push_back({end.open_file, end.peer_open_file, {}});
    return keep_socket(p_, std::move(fd), end);
}

// SO_BUF_LOCK: 1 send size, 2 receive size. An image has only sizes that the program has set.
uint32_t sizes_of_program(const image::Socket &saved)
{
    uint32_t all = 0;
    for (size_t i = 0; i + 2 < saved.options.size(); i += 3) {
        if (saved.options[i] == SOL_SOCKET)
            all |= saved.options[i + 1] == SO_SNDBUF   ? 1
                   : saved.options[i + 1] == SO_RCVBUF ? 2
                                                       : 0;
    }
    return all;
}

bool is_end(const Planning &p, uint32_t id, uint32_t other)
{
    const auto found = p.saved.sockets().find(id);
    return found != p.saved.sockets().end() && found->second.state == SocketState::pair &&
           found->second.peer_open_file == other && found->second.kind == SOCK_STREAM &&
           (found->second.domain == AF_INET || found->second.domain == AF_INET6);
}

} // namespace

void free_addresses(const Planning &p)
{
    std::vector<TcpEnd> ends;
    for (const image::Connection &one : p.saved.of<image::Connection>()) {
        for (const uint32_t id : {one.accepted, one.caller}) {
            const auto end = p.saved.sockets().find(id);
            if (end != p.saved.sockets().end() && Address(end->second.local).is_of(AF_INET6) ==
                                                      Address(end->second.peer).is_of(AF_INET6))
                ends.push_back({Address(end->second.local), Address(end->second.peer)});
        }
    }
    for (const TcpEnd &caller : waiting_callers(p)) {
        ends.push_back(caller);
        ends.push_back({caller.peer, caller.local});
    }
    for (const TcpEnd &end : ended_ends(p))
        ends.push_back(end);
    resources::end_lingering(ends);
}

Result<void> open_connections(Planning &p)
{
    Connections connections(p);
    for (const image::Connection &one : p.saved.of<image::Connection>()) {
        const bool stands[] = {p.redirected.count(one.accepted) != 0,
                               p.redirected.count(one.caller) != 0};
        if (!is_end(p, one.accepted, one.caller) || !is_end(p, one.caller, one.accepted) ||
            is_opened(p, one.accepted) != stands[0] || is_opened(p, one.caller) != stands[1])
            return Error(EINVAL, "a connection has no two ends");
        if (stands[0] && stands[1])
            continue;
        Result<void> done = connections.open(&p.saved.sockets().at(one.accepted),
                                             &p.saved.sockets().at(one.caller));
        if (!done)
            return done.error().within(resources::descriptor_text(descriptor_of(p, one.caller)));
    }
    return {};
}

Result<void> finish_connections(Planning &p)
{
    for (const image::Connection &one : p.saved.of<image::Connection>()) {
        for (const uint32_t id : {one.accepted, one.caller}) {
            if (p.redirected.count(id) != 0)
                continue;
            const int fd = p.open_fds.at(id);
            const image::Socket &saved = p.saved.sockets().at(id);
            const uint32_t peer = saved.peer_open_file;
            await_arrival(fd, saved,
                          p.redirected.count(peer) == 0 &&
                              (p.saved.sockets().at(peer).shutdown & 2) != 0);
            if (Result<void> set = set_socket_options(fd, saved); !set)
                return set;
            resources::choose_congestion(*opening_of(p), fd, saved);
            set_number(fd, SOL_SOCKET, SO_BUF_LOCK, sizes_of_program(saved));
        }
    }
    return {};
}

} // namespace cryo::restore
