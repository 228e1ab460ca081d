// SPDX-License-Identifier: Apache-2.0
// TCP connections to processes outside the image. Their packets have been held since the
// checkpoint, or the peer may have gone on without them: then nothing tells which bytes it has.
#include "resources/descriptor_text.hpp"
#include "resources/socket/open_more.hpp"
#include "resources/socket/packet_hold.hpp"
#include "resources/socket/tcp_repair.hpp"
#include "restore/open_parts.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <netinet/tcp.h>

namespace cryo::restore {

using image::SocketState;
using resources::TcpAddress;

namespace {

constexpr const char *way_out = "; --sockets=close brings it back as closed";

Error refusal(const image::Socket &saved, const Error &why)
{
    return why
        .within(fmt::format("the connection {} to {}", TcpAddress(saved.local).text(),
                            TcpAddress(saved.peer).text()))
        .with_more(way_out);
}

Result<void> keep_closed(Planning &p, const image::Socket &saved)
{
    Fd made(socket(static_cast<int>(saved.domain), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
    if (!made)
        return Error::from_errno("making a socket", errno);
    if (Result<void> set = set_socket_options(made.get(), saved); !set)
        return set;
    resources::choose_congestion(*opening_of(p), made.get(), saved);
    return keep_socket(p, std::move(made), saved);
}

bool may_repair()
{
    const Fd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
    const int yes = 1;
    return setsockopt(probe.get(), IPPROTO_TCP, TCP_REPAIR, &yes, sizeof(yes)) == 0 ||
           errno != EPERM;
}

Result<void> check_held(const image::Socket &saved, const image::KeptConnection &kept)
{
    if (!TcpAddress(saved.local).is_of(saved.domain) || !TcpAddress(saved.peer).is_of(saved.domain))
        return Error(EINVAL, "a connection without addresses");
    if (!may_repair())
        return refusal(saved, Error(EPERM, "it takes the capability CAP_NET_ADMIN in the network "
                                           "namespace, as root has it"));
    Result<void> held =
        resources::are_held(kept.held, {TcpAddress(saved.local), TcpAddress(saved.peer)});
    if (held)
        return held;
    if (held.error().code() == ENOTSUP)
        return refusal(saved, held.error());
    const Error why(ESTALE, fmt::format("its packets have not been held here since the checkpoint, "
                                        "because it was brought back already, on another machine "
                                        "or before a reboot; what its peer has got is unknown ({})",
                                        held.error().text()));
    return refusal(saved, why);
}

Result<void> open_one(Planning &p, const image::Socket &saved, const image::KeptConnection &kept)
{
    if (Result<void> held = check_held(saved, kept); !held)
        return held;
    Result<std::string> received = small_contents(p, saved.object, saved.size);
    Result<std::string> sent = small_contents(p, kept.object, kept.size);
    if (!received || !sent)
        return !received ? received.error() : sent.error();
    Result<Fd> made = resources::put_tcp(saved, kept, *received, *sent);
    if (!made)
        return refusal(saved, made.error());
    resources::choose_congestion(*opening_of(p), made->get(), saved);
    Fd own(fcntl(made->get(), F_DUPFD_CLOEXEC, 3));
    if (!own)
        return Error::from_errno("keeping a connection", errno);
    p.plan.connections.add(std::move(own), saved, kept,
                           std::string(resources::sent_at_start(kept, *sent)));
    return keep_socket(p, std::move(*made), saved);
}

} // namespace

Result<void> open_kept(Planning &p)
{
    const auto &all = p.saved.of<image::KeptConnection>();
    for (const auto &[id, socket] : p.saved.sockets()) {
        if (socket.state == SocketState::kept && !all.contains(id))
            return Error(EINVAL, "a connection that was kept has no record");
    }
    for (const auto &[id, kept] : all) {
        const auto socket = p.saved.sockets().find(id);
        if (socket == p.saved.sockets().end() || socket->second.state != SocketState::kept ||
            socket->second.kind != SOCK_STREAM ||
            (socket->second.domain != AF_INET && socket->second.domain != AF_INET6))
            return Error(EINVAL, "an object that is no socket was kept as a connection");
        const bool closes = p.options.files.close_sockets && !p.options.rehearse;
        if (closes || p.redirected.contains(id))
            p.plan.connections.give_up(kept.held);
        if (p.redirected.contains(id))
            continue;
        const Result<void> done = closes || p.options.rehearse ? keep_closed(p, socket->second)
                                                               : open_one(p, socket->second, kept);
        if (!done)
            return done.error().within(resources::descriptor_text(descriptor_of(p, id)));
        if (closes && (!may_repair() || !resources::can_hold_packets()))
            p.plan.notices.push_back(fmt::format(
                "the packets of the connection of {} may be held here still, "
                "so that its peer is not told: as root, nft delete table {}",
                resources::descriptor_text(descriptor_of(p, id)), resources::table_of(kept.held)));
        if (closes)
            p.plan.notices.push_back(fmt::format("{}, a connection, is closed now",
                                                 resources::descriptor_text(descriptor_of(p, id))));
    }
    return {};
}

} // namespace cryo::restore
