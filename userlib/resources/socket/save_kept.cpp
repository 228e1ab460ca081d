// SPDX-License-Identifier: Apache-2.0
// TCP connections to processes outside that wait, held, until a restart goes on with them. They can
// be in one place only: so the program has to end with the checkpoint.
#include "resources/socket/sockets.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace cryo::resources {

using capture::SocketLook;

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
        const SocketLook &look = socket.look;
        const Result<void> added =
            hold_->add(seen_of(socket).shared.get(), {TcpAddress(image::as_bytes(look.local)),
                                                      TcpAddress(image::as_bytes(look.peer))});
        if (added)
            kept.push_back(&socket);
        else
            socket.kept = added.error();
    }
    if (kept.empty())
        return;
    const Result<void> held = hold_->begin();
    for (size_t i = 0; i < kept.size(); i++) {
        Result<TakenTcp> taken = held ? take_tcp(hold_->fd(i)) : Result<TakenTcp>(held.error());
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
