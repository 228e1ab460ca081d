// SPDX-License-Identifier: Apache-2.0
// TCP connections to processes outside that wait, held, until a restart goes on with them. They can
// be in one place only: so the program has to end with the checkpoint.
#include "resources/socket/peer_end.hpp"
#include "resources/socket/repair_mode.hpp"
#include "resources/socket/sockets.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace cryo::resources {

using capture::SocketLook;

namespace {

// The address that it calls, of a socket whose connection is being opened: it has no peer yet.
void find_called(int fd, SocketLook &look)
{
    if (!look.peer.empty())
        return;
    // The kernel refuses to fill more room than the address takes.
    std::string called(look.domain == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6), '\0');
    auto size = static_cast<socklen_t>(called.size());
    if (getsockopt(fd, SOL_SOCKET, SO_PEERNAME, called.data(), &size) == 0 && size == called.size())
        look.peer = std::move(called);
}

TcpEnd end_of(const SocketLook &look)
{
    return {TcpAddress(image::as_bytes(look.local)), TcpAddress(image::as_bytes(look.peer))};
}

// Not where a restart could not tell it the end that its peer has sent.
Result<TakenTcp> take(int fd, const SocketLook &look, uint64_t held)
{
    Result<TakenTcp> taken = take_tcp(fd);
    if (!taken || !has_peers_end(taken->position.state))
        return taken;
    const Result<void> may = try_end(fd, end_of(look), peers_end(taken->record), mark_of(held));
    return may ? std::move(taken) : Result<TakenTcp>(may.error());
}

} // namespace

bool Sockets::may_be_kept(const SeenSocket &socket) const
{
    const SocketLook &look = socket.look;
    return (look.domain == AF_INET || look.domain == AF_INET6) && look.kind == SOCK_STREAM &&
           look.protocol == IPPROTO_TCP && look.connected && !look.listening && !socket.in_pair &&
           look.problem.empty() && !is_to_be_accepted(look) &&
           !saving_.is_inherited(seen_of(socket));
}

// All are held before one is read, so that nothing arrives any more.
void Sockets::look_at_kept()
{
    if (!keep_ || hold_ == nullptr)
        return;
    std::vector<SeenSocket *> kept;
    for (auto &[inode, socket] : looked_at_) {
        if (!may_be_kept(socket))
            continue;
        const int fd = seen_of(socket).shared.get();
        find_called(fd, socket.look);
        const Result<void> added =
            !socket.look.peer.empty()
                ? hold_->add(fd, end_of(socket.look))
                : Error(ENOTSUP, "it is just being opened or closed, and has no peer's address");
        if (added)
            kept.push_back(&socket);
        else
            socket.kept = added.error();
    }
    if (kept.empty())
        return;
    const Result<void> held = hold_->begin();
    for (size_t i = 0; i < kept.size(); i++) {
        Result<TakenTcp> taken = held ? take(hold_->fd(i), kept[i]->look, hold_->number())
                                      : Result<TakenTcp>(held.error());
        if (taken)
            hold_->remember(i, taken->position);
        kept[i]->kept = std::move(taken);
    }
}

std::string Sockets::why_not_kept(const SeenSocket &socket)
{
    if (!socket.kept || *socket.kept)
        return {};
    return fmt::format(", which cannot be kept: {}", socket.kept->error().text());
}

void Sockets::save_kept(SeenSocket &socket, image::Socket &record)
{
    TakenTcp &taken = **socket.kept;
    taken.record.socket = record.open_file;
    taken.record.held = hold_->number();
    record.shutdown = taken.shutdown;
    record.size = taken.received.size();
    record.object = saving_.copied(image::ObjectKind::socket_queue, std::move(taken.received));
    taken.record.object = saving_.copied(image::ObjectKind::socket_queue, std::move(taken.sent));
    saving_.records().add(taken.record);
}

} // namespace cryo::resources
