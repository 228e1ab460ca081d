// SPDX-License-Identifier: Apache-2.0
// Sockets: made anew, named, connected in pairs, and filled with what was in them.
#include "resources/descriptor_text.hpp"
#include "resources/object_rights.hpp"
#include "resources/socket/connect_lent.hpp"
#include "resources/socket/file_rights.hpp"
#include "resources/socket/open_more.hpp"
#include "resources/socket/socket_name.hpp"
#include "restore/connected_pair.hpp"
#include "restore/open_parts.hpp"
#include "restore/peers.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::restore {

using image::SocketState;

Result<void> keep_socket(Planning &p, Fd fd, const image::Socket &saved)
{
    const image::OpenFile &open_file = p.saved.open_files().at(saved.open_file);
    if (Result<void> set = set_flags(fd.get(), open_file.flags, "a socket"); !set)
        return set;
    const auto file = p.saved.files().find(open_file.file);
    if (file != p.saved.files().end()) {
        if (std::string lost =
                resources::give_object_rights(fd.get(), file->second, *p.options.trust, "a socket");
            !lost.empty())
            notice_once(p, std::move(lost));
    }
    Result<int> kept = keep_open(p, std::move(fd), saved.open_file);
    if (!kept)
        return kept.error();
    return {};
}

namespace {

using Address = SocketName;

using Pair = ConnectedPair;

bool same(image::Bytes a, image::Bytes b)
{
    return std::ranges::equal(a, b);
}

// The restored socket that listens under this name; nullptr: none does.
const image::Socket *listener_at(const Planning &p, const image::Socket &accepted)
{
    for (const auto &[id, socket] : p.saved.sockets()) {
        if (socket.state == SocketState::listening && socket.domain == AF_UNIX &&
            socket.kind == accepted.kind && same(socket.local, accepted.local) &&
            p.open_fds.count(id) != 0 && p.redirected.count(id) == 0)
            return &socket;
    }
    return nullptr;
}

// A connection by name: the accepted end has the name of the
// listener, which is restored already, or exists for a moment.
Result<Pair> connection(Planning &p, const image::Socket &accepted, const image::Socket &caller)
{
    const Address address(accepted.local);
    const InDirectory inside{std::string(p.saved.process.cwd)};
    const auto as = [&](const Namesake::Deed &deed) {
        return p.namesakes->caller_of(accepted, deed);
    };
    if (const image::Socket *found = listener_at(p, accepted); found != nullptr) {
        const int fd = p.open_fds.at(found->open_file);
        if (!p.namesakes->listen(caller, fd, static_cast<int>(found->backlog)))
            return Error::from_errno("listening again", errno);
        // Even a nonblocking listener will do: the connection is there when accept is called.
        // Others may have been bound to its name, too, before their files were renamed.
        return connect_pair(fd, name_now(p, *found), static_cast<int>(caller.kind), caller.local,
                            as);
    }
    struct stat before;
    const bool was_there = address.path() != nullptr && lstat(address.path(), &before) == 0;
    if (Result<void> removed = remove_stale(address, static_cast<int>(accepted.kind)); !removed)
        return removed.error();
    const Fd listener(socket(AF_UNIX, static_cast<int>(accepted.kind) | SOCK_CLOEXEC, 0));
    if (!listener || bind(listener.get(), address.get(), address.size) != 0 ||
        !p.namesakes->listen(caller, listener.get(), 1))
        return Error::from_errno("taking the name " + address.text(), errno);
    if (was_there) { // and stays
        const Result<std::string> lost = resources::give_rights(
            listener.get(), address.path(), {before.st_mode, before.st_uid, before.st_gid});
        if (!lost)
            return lost.error();
        if (!lost->empty())
            notice_once(p, *lost);
    }
    Result<Pair> made =
        connect_pair(listener.get(), address, static_cast<int>(caller.kind), caller.local, as);
    if (address.path() != nullptr && !was_there)
        unlink(address.path());
    return made;
}

// Datagram sockets that have names and are connected with each other.
Result<Pair> named_datagrams(Planning &p, const image::Socket &saved, const image::Socket &other)
{
    const InDirectory inside{std::string(p.saved.process.cwd)};
    Pair pair;
    for (const auto &[fd, socket] : {std::pair(&pair.one, &saved), std::pair(&pair.two, &other)}) {
        Result<Fd> made = take_or_make(p, *socket);
        if (!made)
            return made.error();
        *fd = std::move(*made);
    }
    for (const auto &[fd, to] :
         {std::pair(pair.one.get(), &other), std::pair(pair.two.get(), &saved)}) {
        const Address address = name_now(p, *to);
        if (connect(fd, address.get(), address.size) != 0)
            return Error::from_errno("connecting to " + address.text(), errno);
    }
    return pair;
}

// Falls back to an unnamed pair, with a notice, where the name is not available.
Result<Pair> make_pair_of(Planning &p, const image::Socket &saved, const image::Socket *other)
{
    if (other == nullptr || (!is_named(saved.local) && !is_named(other->local)))
        return p.namesakes->pair(saved);
    if (is_named_pair(saved, other))
        return named_datagrams(p, saved, *other);
    Result<Pair> made = Error(ENOTSUP, "neither end has accepted it");
    if (is_named(saved.local) && same(other->peer, saved.local)) {
        made = connection(p, saved, *other);
    } else if (is_named(other->local) && same(saved.peer, other->local)) {
        made = connection(p, *other, saved);
        if (made)
            std::swap(made->one, made->two);
    }
    if (made)
        return made;
    p.plan.notices.push_back(fmt::format(
        "{}, a connection to a named socket, has no name now: {}",
        resources::descriptor_text(descriptor_of(p, saved.open_file)), made.error().text()));
    return p.namesakes->pair(saved);
}

Result<void> open_pair(Planning &p, const image::Socket &saved)
{
    const image::Socket *other = other_end(p, saved);
    Result<Pair> made = make_pair_of(p, saved, other);
    if (!made)
        return made.error();
    auto &[one, two] = *made;
    Result<void> done = set_socket_options(one.get(), saved);
    if (done && other != nullptr)
        done = set_socket_options(two.get(), *other);
    if (done)
        done = keep_socket(p, std::move(one), saved);
    p.unfilled.push_back({saved.open_file, other != nullptr ? saved.peer_open_file : 0, {}});
    if (other != nullptr) {
        if (done)
            done = keep_socket(p, std::move(two), *other);
        p.unfilled.push_back({saved.peer_open_file, saved.open_file, {}});
    } else {
        p.unfilled.back().lone = std::move(two);
    }
    return done;
}

Result<void> open_one(Planning &p, const image::Socket &saved)
{
    if (saved.state == SocketState::pair ||
        (saved.state == SocketState::closed && saved.domain == AF_UNIX))
        return open_pair(p, saved);
    Result<Fd> made = take_or_make(p, saved);
    if (!made)
        return made.error();
    if (Result<void> done = resources::join_groups(*opening_of(p), made->get(), saved); !done)
        return done;
    // Reading reports the end of a connection that was over; shutdown works despite ENOTCONN.
    if (saved.state == SocketState::closed && saved.shutdown == 3)
        shutdown(made->get(), SHUT_RDWR);
    if (saved.state == SocketState::listening) {
        if (listen(made->get(), static_cast<int>(saved.backlog)) != 0)
            return Error::from_errno("listening again", errno);
    } else if (saved.state == SocketState::connected_datagram) {
        // Once connected, it would accept datagrams from its peer only.
        if (p.saved.of<image::Senders>().count(saved.open_file) == 0) {
            if (Result<void> done = connect_datagram(p, made->get(), saved); !done)
                return done;
        }
    }
    if (p.saved.of<image::Senders>().count(saved.open_file) != 0)
        p.unfilled.push_back({saved.open_file, 0, {}});
    if (Result<void> done = resources::start_raw(*opening_of(p), made->get(), saved); !done)
        return done;
    if (Result<void> done = resources::share_packets(made->get(), saved); !done)
        return done;
    return keep_socket(p, std::move(*made), saved);
}

// Connects the UNIX sockets that no process has accepted yet to their listeners, in order.
Result<void> connect_waiting(Planning &p)
{
    const InDirectory inside{std::string(p.saved.process.cwd)};
    for (const image::Waiting &queue : p.saved.of<image::Waiting>()) {
        const auto listener = p.saved.sockets().find(queue.listener);
        if (p.redirected.count(queue.listener) != 0)
            continue; // no process listens there now
        if (listener == p.saved.sockets().end() || !is_opened(p, queue.listener))
            return Error(EINVAL, "connections wait at an object that is no socket");
        if (listener->second.domain != AF_UNIX)
            continue; // open_waiting()
        const Address address = name_now(p, listener->second);
        // The backlog may have been made smaller since the connections came.
        const int room = std::max(static_cast<int>(listener->second.backlog),
                                  static_cast<int>(queue.callers.size()));
        if (listen(p.open_fds.at(queue.listener), room) != 0)
            return Error::from_errno("listening again", errno);
        for (size_t i = 0; i < queue.callers.size(); i++) {
            const auto caller = p.saved.sockets().find(queue.callers[i]);
            if (p.redirected.count(queue.callers[i]) != 0)
                continue; // as if it had not called
            if (caller == p.saved.sockets().end() || !is_opened(p, queue.callers[i]))
                return Error(EINVAL, "an object that is no socket waits to be accepted");
            if (!p.namesakes->listen(caller->second, p.open_fds.at(queue.listener), room))
                return Error::from_errno("listening again", errno);
            const int fd = p.open_fds.at(queue.callers[i]);
            const int flags = fcntl(fd, F_GETFL);
            fcntl(fd, F_SETFL, flags | O_NONBLOCK); // others may fill the queue
            const int why = resources::connect_lent(
                address, [&] { return p.namesakes->connect(caller->second, fd, address); });
            fcntl(fd, F_SETFL, flags);
            if (why != 0)
                return Error(
                    why, fmt::format("{}: connecting to {}: {}",
                                     resources::descriptor_text(descriptor_of(p, queue.callers[i])),
                                     address.text(), strerror(why)));
            const uint32_t how = caller->second.shutdown;
            if (how != 0 && shutdown(fd, static_cast<int>(how) - 1) != 0)
                return Error::from_errno("shutting a socket down", errno);
        }
        if (listen(p.open_fds.at(queue.listener), static_cast<int>(listener->second.backlog)) != 0)
            return Error::from_errno("listening again", errno);
    }
    return {};
}

// Named sockets come before those that are connected to them, or send to them.
int turn_of(const image::Socket &socket)
{
    return socket.state == SocketState::connected_datagram ? 3
           : socket.state == SocketState::pair             ? 2
                                                           : 1;
}

Result<void> open_turn(Planning &p, int turn)
{
    for (const auto &[id, socket] : p.saved.sockets()) {
        if (is_opened(p, id) || turn_of(socket) != turn ||
            (socket.state == SocketState::pair && socket.domain != AF_UNIX) ||
            socket.state == SocketState::kept)
            continue;
        if (Result<void> done = open_one(p, socket); !done)
            return done.error().within(resources::descriptor_text(descriptor_of(p, id)));
        if (socket.state == SocketState::closed && socket.domain != AF_UNIX && socket.shutdown == 0)
            p.plan.notices.push_back(fmt::format("{}, a connection, is closed now",
                                                 resources::descriptor_text(descriptor_of(p, id))));
    }
    return {};
}

} // namespace

Result<void> open_sockets(Planning &p)
{
    p.namesakes = std::make_shared<Namesakes>(p);
    free_addresses(p);
    if (Result<void> done = open_ended(p); !done)
        return done;
    if (Result<void> done = bind_renamed(p); !done)
        return done;
    for (const int turn : {1, 2, 3}) {
        if (Result<void> done = open_turn(p, turn); !done)
            return done;
    }
    if (Result<void> done = settle_options(p); !done)
        return done;
    if (Result<void> done = open_kept(p); !done)
        return done;
    if (Result<void> done = open_connections(p); !done)
        return done;
    if (Result<void> done = connect_waiting(p); !done)
        return done;
    if (Result<void> done = open_waiting(p); !done)
        return done;
    tell_peers(p);
    p.namesakes.reset();
    return {};
}

namespace {

struct OwnListener {
    int fd;
    uint32_t backlog;
    bool in_message; // only there, so `fd` is cr_restart's
};

// UNIX sockets at which this process is the one to listen again.
std::vector<OwnListener> own_listeners(const Planning &p)
{
    std::vector<OwnListener> own;
    for (const auto &[id, socket] : p.saved.sockets()) {
        const auto made = p.open_fds.find(id);
        if (socket.domain != AF_UNIX || socket.state != SocketState::listening ||
            !p.saved.cares_for.contains(id) || p.redirected.contains(id) ||
            made == p.open_fds.end())
            continue;
        const int number = descriptor_of(p, id);
        own.push_back({number >= 0 ? number : made->second, socket.backlog, number < 0});
    }
    return own;
}

} // namespace

std::set<int> spared_listeners(const Planning &p)
{
    std::set<int> spared;
    for (const OwnListener &one : own_listeners(p)) {
        if (one.in_message)
            spared.insert(one.fd);
    }
    return spared;
}

// A peer sees the credentials of the process that listens: that must not be cr_restart.
void plan_listeners(Planning &p)
{
    for (const OwnListener &one : own_listeners(p)) {
        p.plan.program.call("listening again", SYS_listen, {value(one.fd), value(one.backlog)});
        if (one.in_message)
            p.plan.program.call("closing", SYS_close, {value(one.fd)});
    }
}

} // namespace cryo::restore
