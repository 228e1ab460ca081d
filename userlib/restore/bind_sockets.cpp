// SPDX-License-Identifier: Apache-2.0
// Sockets with the names that they were bound to.
#include "resources/descriptor_text.hpp"
#include "resources/socket/file_rights.hpp"
#include "resources/socket/open_more.hpp"
#include "resources/socket/socket_name.hpp"
#include "restore/open_parts.hpp"
#include "restore/sockets_apart.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <utility>

namespace cryo::restore {

using Address = SocketName;
using image::SocketState;

bool is_named(image::Bytes address)
{
    return address.size() > sizeof(sa_family_t);
}

const image::Socket *other_end(const Planning &p, const image::Socket &saved)
{
    const auto other = p.saved.sockets().find(saved.peer_open_file);
    const bool both = saved.state == SocketState::pair && other != p.saved.sockets().end() &&
                      other->second.state == SocketState::pair &&
                      p.redirected.count(saved.peer_open_file) == 0;
    return both ? &other->second : nullptr;
}

bool is_named_pair(const image::Socket &saved, const image::Socket *other)
{
    return other != nullptr && saved.kind == SOCK_DGRAM && is_named(saved.local) &&
           is_named(other->local);
}

namespace {

bool is_internet(const image::Socket &socket)
{
    return socket.domain == AF_INET || socket.domain == AF_INET6;
}

// 0: none, or the socket of a connection, which has its listener's port. The port of a raw socket
// is the number of its protocol, and not its own.
uint16_t own_port(const image::Socket &socket)
{
    uint16_t port = 0;
    if (is_internet(socket) && socket.state != SocketState::pair &&
        socket.state != SocketState::kept && socket.kind != SOCK_RAW &&
        socket.local.size() >= offsetof(sockaddr_in, sin_addr))
        memcpy(&port, socket.local.data() + offsetof(sockaddr_in, sin_port), sizeof(port));
    return port;
}

// Sockets that share a port may have had SO_REUSEPORT set only until they were bound. It
// is set again until all of them are bound: settle_options() restores the saved value.
bool shares_its_port(const Planning &p, const image::Socket &saved)
{
    const uint16_t port = own_port(saved);
    return port != 0 && std::ranges::any_of(p.saved.sockets(), [&](const auto &entry) {
               const image::Socket &other = entry.second;
               return other.open_file != saved.open_file && other.kind == saved.kind &&
                      other.protocol == saved.protocol && own_port(other) == port;
           });
}

const image::SocketMore *more_of(const Planning &p, const image::Socket &saved)
{
    const auto more = p.saved.of<image::SocketMore>().find(saved.open_file);
    return more == p.saved.of<image::SocketMore>().end() ? nullptr : &more->second;
}

bool is_apart(const Planning &p, const image::Socket &saved)
{
    const image::SocketMore *more = more_of(p, saved);
    return more != nullptr && more->file_removed && Address(saved.local).path() != nullptr;
}

// Binds it, as before, to an address that no interface has (IP_FREEBIND). Sets the option again to
// what it was afterwards.
int bind_absent(int fd, const image::Socket &saved, const Address &address)
{
    const bool six = saved.domain == AF_INET6;
    const int level = six ? IPPROTO_IPV6 : IPPROTO_IP;
    const int name = six ? IPV6_FREEBIND : IP_FREEBIND;
    const int yes = 1;
    int before = 0;
    socklen_t size = sizeof(before);
    getsockopt(fd, level, name, &before, &size);
    setsockopt(fd, level, name, &yes, sizeof(yes));
    const int bound = bind(fd, address.get(), address.size);
    const int why = errno;
    setsockopt(fd, level, name, &before, sizeof(before));
    errno = why;
    return bound;
}

Result<void> name_it(Planning &p, int fd, const image::Socket &saved)
{
    Address address(saved.local);
    if (is_apart(p, saved)) {
        if (p.sockets_apart == nullptr)
            p.sockets_apart = std::make_shared<SocketsApart>();
        return p.sockets_apart->bind(fd, saved.open_file, address,
                                     std::string(p.saved.process.cwd));
    }
    const InDirectory inside{std::string(p.saved.process.cwd)};
    if (Result<void> removed = remove_stale(address, static_cast<int>(saved.kind)); !removed)
        return removed;
    if (Result<void> found = resources::find_interface(*opening_of(p), saved, address.storage);
        !found)
        return found;
    // Old connections of this port linger (TIME_WAIT); they must not prevent listening.
    const int yes = 1;
    int reuse = 0;
    socklen_t size = sizeof(reuse);
    getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, &size);
    if (saved.kind == SOCK_STREAM)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (shares_its_port(p, saved))
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof(yes));
    const image::SocketMore *more = more_of(p, saved);
    const bool is_absent = more != nullptr && more->absent_address && is_internet(saved);
    if ((is_absent ? bind_absent(fd, saved, address) : bind(fd, address.get(), address.size)) !=
        0) {
        const int why = errno;
        const bool used = why == EADDRINUSE && saved.domain != AF_UNIX;
        return Error(why, fmt::format("giving a socket its address {}: {}{}{}", address.text(),
                                      strerror(why), used ? ": by another program" : "",
                                      used && is_internet(saved)
                                          ? ", or by old connections of this one, which linger "
                                            "for a minute"
                                          : ""));
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
    if (address.path() == nullptr || saved.file_mode == 0)
        return {};
    const Result<std::string> lost = resources::give_rights(
        fd, address.path(), {saved.file_mode, saved.file_uid, saved.file_gid});
    if (!lost)
        return lost.error();
    if (!lost->empty())
        p.plan.notices.push_back(fmt::format(
            "{}: {}", resources::descriptor_text(descriptor_of(p, saved.open_file)), *lost));
    return {};
}

Result<Fd> make(const image::Socket &saved)
{
    Fd made(socket(static_cast<int>(saved.domain), static_cast<int>(saved.kind) | SOCK_CLOEXEC,
                   static_cast<int>(saved.protocol)));
    if (!made)
        return Error::from_errno("making a socket", errno);
    if (Result<void> set = set_socket_options(made.get(), saved); !set)
        return set.error();
    return made;
}

// Whether it has a name of its own: an accepted connection has its listener's.
bool is_bound(const Planning &p, const image::Socket &saved)
{
    if (saved.state == SocketState::pair)
        return is_named_pair(saved, other_end(p, saved));
    return saved.state != SocketState::fresh && saved.state != SocketState::closed &&
           is_named(saved.local);
}

Result<Fd> make_bound(Planning &p, const image::Socket &saved)
{
    Result<Fd> made = make(saved);
    if (!made)
        return made;
    if (Result<void> done = resources::filter_first(*opening_of(p), made->get(), saved); !done)
        return done.error();
    resources::choose_congestion(*opening_of(p), made->get(), saved);
    if (!is_bound(p, saved))
        return made;
    if (Result<void> named = name_it(p, made->get(), saved); !named)
        return named.error();
    return made;
}

Result<Fd> make_renamed(Planning &p, const image::Socket &saved, SocketRenames &renames)
{
    const Address old(saved.local);
    const Result<Address> renamed = old.beside(new_name(p, saved));
    if (!renamed)
        return renamed.error();
    Result<Fd> made = make_bound(p, saved);
    if (!made)
        return made;
    // Another restart would take one that does not listen for a dead one, and remove its file.
    if (saved.state == SocketState::listening &&
        listen(made->get(), static_cast<int>(saved.backlog)) != 0)
        return Error::from_errno(fmt::format("listening at {}", old.text()), errno);
    if (Result<void> left = renames.leave(old, *renamed, static_cast<int>(saved.kind)); !left)
        return left.error();
    return made;
}

} // namespace

Result<void> settle_options(const Planning &p)
{
    for (const auto &[id, socket] : p.saved.sockets()) {
        if (p.open_fds.count(id) == 0 || p.redirected.contains(id) || !shares_its_port(p, socket))
            continue;
        if (Result<void> set = set_socket_options(p.open_fds.at(id), socket); !set)
            return set.error().within(resources::descriptor_text(descriptor_of(p, id)));
    }
    return {};
}

Result<Fd> take_or_make(Planning &p, const image::Socket &saved)
{
    const auto found = p.renamed_sockets.find(saved.open_file);
    if (found == p.renamed_sockets.end())
        return make_bound(p, saved);
    return std::move(found->second);
}

Result<void> bind_renamed(Planning &p)
{
    const InDirectory inside{std::string(p.saved.process.cwd)};
    SocketRenames renames;
    for (const auto &[id, socket] : p.saved.sockets()) {
        if (is_opened(p, id) || new_name(p, socket).empty() || !is_bound(p, socket))
            continue;
        Result<Fd> made = make_renamed(p, socket, renames);
        if (!made)
            return made.error().within(resources::descriptor_text(descriptor_of(p, id)));
        p.renamed_sockets[id] = std::move(*made);
    }
    return renames.arrive();
}

} // namespace cryo::restore
