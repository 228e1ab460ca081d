// SPDX-License-Identifier: Apache-2.0
// Where sockets are found: the file of a UNIX socket may have been renamed after the bind, and its
// old name may have been given to another one.
#include "restore/open_parts.hpp"
#include "restore/socket_name.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>

namespace cryo::restore {

std::string_view new_name(const Planning &p, const image::Socket &saved)
{
    const auto more = p.saved.socket_more.find(saved.open_file);
    return more == p.saved.socket_more.end() || SocketName(saved.local).path() == nullptr
               ? std::string_view()
               : more->second.file_name;
}

SocketName name_now(const Planning &p, const image::Socket &socket)
{
    const SocketName old(socket.local);
    const Result<SocketName> now = old.beside(new_name(p, socket));
    return now ? *now : old;
}

Result<void> connect_datagram(Planning &p, int fd, const image::Socket &saved)
{
    // Several sockets may have been bound to the name that the sender tells.
    const auto to = p.saved.sockets.find(saved.peer_open_file);
    const bool known = saved.domain == AF_UNIX && to != p.saved.sockets.end();
    const SocketName peer = known ? name_now(p, to->second) : SocketName(saved.peer);
    const InDirectory inside{std::string(p.saved.process.cwd)};
    // A missing receiver is as one that went away while the program ran: sending reports it.
    if (connect(fd, peer.get(), peer.size) == 0)
        return {};
    if (saved.domain != AF_UNIX) // needs no peer to be there
        return Error::from_errno("connecting to " + peer.text(), errno);
    p.plan.notices.push_back(
        fmt::format("descriptor {}: nobody is there at {} ({}); it is not connected",
                    descriptor_of(p, saved.open_file), peer.text(), strerror(errno)));
    return {};
}

} // namespace cryo::restore
