// SPDX-License-Identifier: Apache-2.0
// TCP connections that have ended, between addresses of this machine's loopback interface: such a
// socket still tells its names (getsockname, SO_PEERNAME). It comes back as the accepted end of a
// connection whose other end is gone, for that keeps neither the port nor the addresses.
#include "look/internet_address.hpp"
#include "resources/descriptor_text.hpp"
#include "resources/socket/open_more.hpp"
#include "restore/open_parts.hpp"
#include "restore/tcp_calls.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace cryo::restore {

using image::SocketState;
using resources::TcpEnd;
using Address = resources::TcpAddress;

namespace {

constexpr int patience_ms = 1000;

bool is_ended(const image::Socket &saved)
{
    constexpr uint32_t both = 3; // else it was closed by the checkpoint
    return saved.state == SocketState::closed && saved.shutdown == both &&
           saved.protocol == IPPROTO_TCP && saved.kind == SOCK_STREAM &&
           (saved.domain == AF_INET || saved.domain == AF_INET6);
}

bool has_names(const image::Socket &saved)
{
    const capture::InternetAddress local(image::as_text(saved.local));
    const capture::InternetAddress peer(image::as_text(saved.peer));
    return Address(saved.local).is_of(saved.domain) && Address(saved.peer).is_of(saved.domain) &&
           local.is_loopback() && peer.is_loopback() && local.port() != 0 && peer.port() != 0;
}

bool waits_for(int fd, short events)
{
    pollfd one = {fd, events, 0};
    return poll(&one, 1, patience_ms) == 1;
}

// Both ends are bound as a server is, which an ended connection of the port does not prevent.
Fd bound(const Address &address, uint32_t domain)
{
    Fd fd = tcp_socket(domain);
    set_number(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (fd && bind(fd.get(), address.get(), address.size()) != 0) {
        const int why = errno;
        fd.reset();
        errno = why;
    }
    return fd;
}

// Closes the end that has called: a reset needs no answer, and nothing lingers.
Result<void> end_abruptly(Fd caller, int accepted)
{
    const linger at_once = {1, 0};
    setsockopt(caller.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    caller.reset();
    waits_for(accepted, POLLRDHUP);
    number(accepted, SOL_SOCKET, SO_ERROR); // the program does not hear of the reset
    tcp_info info = {};
    socklen_t size = sizeof(info);
    if (getsockopt(accepted, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        info.tcpi_state != TCP_CLOSE)
        return Error(ETIMEDOUT, "a connection does not end");
    return {};
}

Result<Fd> make_ended(const image::Socket &saved)
{
    const Address local(saved.local), peer(saved.peer);
    const Fd listener = bound(local, saved.domain);
    if (!listener || listen(listener.get(), 1) != 0)
        return Error::from_errno(local.text(), errno);
    Fd caller = bound(peer, saved.domain);
    if (!caller)
        return Error::from_errno(peer.text(), errno);
    if (connect(caller.get(), local.get(), local.size()) != 0 && errno != EINPROGRESS)
        return Error::from_errno(local.text(), errno);
    constexpr int most_others = 100; // clients that came first, as at any server
    for (int i = 0; i < most_others && waits_for(listener.get(), POLLIN); i++) {
        Fd accepted(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!accepted || !Address::of_peer(accepted.get()).same(peer))
            continue;
        if (Result<void> ended = end_abruptly(std::move(caller), accepted.get()); !ended)
            return ended.error();
        return accepted;
    }
    return Error(ETIMEDOUT, local.text() + ": no connection arrives");
}

} // namespace

std::vector<TcpEnd> ended_ends(const Planning &p)
{
    std::vector<TcpEnd> ends;
    for (const auto &[id, saved] : p.saved.sockets()) {
        if (!is_ended(saved) || !has_names(saved))
            continue;
        const TcpEnd end = {Address(saved.local), Address(saved.peer)};
        ends.push_back(end);
        ends.push_back({end.peer, end.local});
    }
    return ends;
}

Result<void> open_ended(Planning &p)
{
    for (const auto &[id, saved] : p.saved.sockets()) {
        if (is_opened(p, id) || !is_ended(saved) || !has_names(saved))
            continue;
        Result<Fd> made = make_ended(saved);
        if (!made) {
            p.plan.notices.push_back(
                fmt::format("{}, a socket whose connection has ended, comes back "
                            "without its names (getsockname, SO_PEERNAME): {}",
                            resources::descriptor_text(descriptor_of(p, id)), made.error().text()));
            continue; // it is opened in its turn
        }
        Result<void> done = set_socket_options(made->get(), saved);
        if (done)
            done = resources::filter_first(*opening_of(p), made->get(), saved);
        if (!done)
            return done.error().within(resources::descriptor_text(descriptor_of(p, id)));
        resources::choose_congestion(*opening_of(p), made->get(), saved);
        if (Result<void> kept = keep_socket(p, std::move(*made), saved); !kept)
            return kept;
    }
    return {};
}

} // namespace cryo::restore
