// SPDX-License-Identifier: Apache-2.0
// Where sockets are found: the file of a UNIX socket may have been renamed after the bind, and its
// old name may have been given to another one.
#include "base/trust.hpp"
#include "resources/descriptor_text.hpp"
#include "resources/socket/connect_lent.hpp"
#include "resources/socket/socket_name.hpp"
#include "restore/open_parts.hpp"
#include "restore/sockets_apart.hpp"
#include "restore/trusted_path.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/un.h>

namespace cryo::restore {

namespace {

// Anybody may have taken the name of a receiver that is gone. Its owner was not saved.
Result<Found> find_receiver(const Planning &p, const char *name)
{
    const std::string path = *name == '/' ? name : fmt::format("{}/{}", p.saved.process.cwd, name);
    image::File file;
    file.kind = image::FileKind::socket;
    file.uid = unknown_owner;
    file.path = path;
    return find_trusted(p.options, file, AtEnd::receiver);
}

// By a descriptor of its file, so that it is the one that was looked at.
Result<void> connect_local(const Planning &p, int fd, const SocketName &peer)
{
    SocketName name = peer;
    const auto connects = [&] { return connect(fd, name.get(), name.size) == 0 ? 0 : errno; };
    int why = 0;
    if (peer.path() != nullptr) {
        const Result<Found> there = find_receiver(p, peer.path());
        if (!there && there.error().code() == EPERM)
            return there.error();
        auto &through = reinterpret_cast<sockaddr_un &>(name.storage);
        *fmt::format_to(through.sun_path, "/proc/self/fd/{}", there ? there->fd.get() : -1) = 0;
        name.size = sizeof(through);
        why = there ? resources::connect_lent(*there, connects) : there.error().code();
    } else {
        why = connects();
    }
    if (why == 0)
        return {};
    return Error(why, fmt::format("{} {} ({})",
                                  why == EACCES ? "this user may not write to the receiver at"
                                                : "there is no receiver at",
                                  peer.text(), strerror(why)));
}

} // namespace

std::string_view new_name(const Planning &p, const image::Socket &saved)
{
    const auto more = p.saved.of<image::SocketMore>().find(saved.open_file);
    return more == p.saved.of<image::SocketMore>().end() ||
                   SocketName(saved.local).path() == nullptr
               ? std::string_view()
               : more->second.file_name;
}

namespace {

const SocketName *place_apart(const Planning &p, const image::Socket &socket)
{
    return p.sockets_apart == nullptr ? nullptr : p.sockets_apart->place(socket.open_file);
}

} // namespace

SocketName name_now(const Planning &p, const image::Socket &socket)
{
    if (const SocketName *apart = place_apart(p, socket); apart != nullptr)
        return *apart;
    const SocketName old(socket.local);
    const Result<SocketName> now = old.beside(new_name(p, socket));
    return now ? *now : old;
}

Result<void> connect_datagram(Planning &p, int fd, const image::Socket &saved)
{
    // Several sockets may have been bound to the name of the sender.
    const auto to = p.saved.sockets().find(saved.peer_open_file);
    const bool known = saved.domain == AF_UNIX && to != p.saved.sockets().end();
    const SocketName peer = known ? name_now(p, to->second) : SocketName(saved.peer);
    const bool is_ours = known && place_apart(p, to->second) != nullptr;
    if (saved.domain != AF_UNIX || is_ours) // no peer is needed, or it is there
        return connect(fd, peer.get(), peer.size) == 0
                   ? Result<void>()
                   : Error::from_errno("connecting to " + peer.text(), errno);
    // A missing receiver is as one that went away while the program ran: sending reports it.
    if (const Result<void> done = connect_local(p, fd, peer); !done)
        p.plan.notices.push_back(fmt::format(
            "{}: {}; it is not connected",
            resources::descriptor_text(descriptor_of(p, saved.open_file)), done.error().text()));
    return {};
}

} // namespace cryo::restore
