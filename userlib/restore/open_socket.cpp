// SPDX-License-Identifier: Apache-2.0
// Sockets: made anew, named, connected in pairs, and filled with what was in them.
#include "capture/socket_look.hpp"
#include "image/socket_options.hpp"
#include "restore/open_parts.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace cryo::restore {

using image::SocketState;

namespace {

struct Address {
    sockaddr_storage storage = {};
    socklen_t size = 0;

    explicit Address(image::Bytes bytes)
        : size(static_cast<socklen_t>(std::min(bytes.size(), sizeof(storage))))
    {
        memcpy(&storage, bytes.data(), size);
    }
    std::string text() const
    {
        return capture::printable_address(
            std::string(reinterpret_cast<const char *>(&storage), size));
    }
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage); }
    // The file name of a UNIX address; nullptr where there is none.
    const char *path() const
    {
        const auto &local = reinterpret_cast<const sockaddr_un &>(storage);
        if (storage.ss_family != AF_UNIX || size <= offsetof(sockaddr_un, sun_path) ||
            local.sun_path[0] == 0)
            return nullptr;
        return local.sun_path;
    }
};

// UNIX names may count from the program's working directory.
class InDirectory
{
  public:
    explicit InDirectory(const std::string &path)
        : before_(open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)), there_(chdir(path.c_str()) == 0)
    {}
    ~InDirectory()
    {
        if (there_ && fchdir(before_.get()) != 0)
            there_ = false;
    }
    InDirectory(const InDirectory &) = delete;
    InDirectory &operator=(const InDirectory &) = delete;

  private:
    Fd before_;
    bool there_;
};

Result<void> set_options(int fd, const image::Socket &saved)
{
    for (size_t i = 0; i + 2 < saved.options.size(); i += 3) {
        const auto level = static_cast<int>(saved.options[i]);
        const auto name = static_cast<int>(saved.options[i + 1]);
        uint64_t now = 0;
        if (!image::read_socket_option(fd, level, name, now) || now == saved.options[i + 2])
            continue;
        if (const int why = image::set_socket_option(fd, level, name, saved.options[i + 2]);
            why != 0)
            return Error(why, fmt::format("setting option {} of level {} of a socket: {}", name,
                                          level, strerror(why)));
    }
    return {};
}

// A socket file whose socket is gone is in the way.
Result<void> remove_stale(const Address &address, int kind)
{
    const char *path = address.path();
    struct stat now;
    if (path == nullptr || lstat(path, &now) != 0)
        return {};
    if (!S_ISSOCK(now.st_mode))
        return Error(EEXIST, fmt::format("{} stands where a socket was; remove it", path));
    const Fd caller(socket(AF_UNIX, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (connect(caller.get(), address.get(), address.size) == 0 || errno != ECONNREFUSED)
        return Error(EADDRINUSE, fmt::format("somebody uses the socket {}", path));
    if (unlink(path) != 0)
        return Error::from_errno(fmt::format("removing the old socket {}", path), errno);
    return {};
}

Result<void> name_it(Planning &p, int fd, const image::Socket &saved)
{
    const Address address(saved.local);
    const InDirectory inside{std::string(p.saved.process.cwd)};
    if (Result<void> removed = remove_stale(address, static_cast<int>(saved.kind)); !removed)
        return removed;
    // Old connections of this port linger; they are no reason not to listen.
    const int yes = 1;
    int reuse = 0;
    socklen_t size = sizeof(reuse);
    getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, &size);
    if (saved.kind == SOCK_STREAM)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, address.get(), address.size) != 0) {
        const int why = errno;
        const bool lingers = why == EADDRINUSE && saved.domain != AF_UNIX;
        return Error(why, fmt::format("giving a socket its address {}: {}{}", address.text(),
                                      strerror(why),
                                      lingers ? ": by another program, or by old connections of "
                                                "this one, which linger for a minute"
                                              : ""));
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
    if (address.path() != nullptr && saved.file_mode != 0 &&
        chmod(address.path(), saved.file_mode & 07777) != 0)
        return Error::from_errno(fmt::format("giving {} its mode", address.path()), errno);
    return {};
}

Result<Fd> make(const image::Socket &saved)
{
    Fd made(socket(static_cast<int>(saved.domain), static_cast<int>(saved.kind) | SOCK_CLOEXEC,
                   static_cast<int>(saved.protocol)));
    if (!made)
        return Error::from_errno("making a socket", errno);
    if (Result<void> set = set_options(made.get(), saved); !set)
        return set.error();
    return made;
}

Result<void> keep(Planning &p, Fd fd, const image::Socket &saved)
{
    const image::OpenFile &open_file = p.saved.open_files.at(saved.open_file);
    if (Result<void> set = set_flags(fd.get(), open_file.flags, "a socket"); !set)
        return set;
    Result<int> kept = keep_open(p, std::move(fd), saved.open_file);
    if (!kept)
        return kept.error();
    return {};
}

// What `to` had in its queue is sent again by its peer.
Result<void> fill(Planning &p, const image::Socket &to, int from)
{
    Result<std::string> bytes = small_contents(p, to.object, to.size);
    if (!bytes)
        return bytes.error();
    std::string_view rest = *bytes;
    const bool stream = to.kind == SOCK_STREAM;
    for (size_t i = 0; stream ? !rest.empty() : i < to.packets.size(); i++) {
        const size_t part = stream ? rest.size() : std::min<size_t>(to.packets[i], rest.size());
        const ssize_t n = send(from, rest.data(), part, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 || (!stream && static_cast<size_t>(n) != part))
            return Error(n < 0 ? errno : EIO, "filling a socket with what was in it");
        rest.remove_prefix(static_cast<size_t>(n));
    }
    return {};
}

Result<void> shut(int fd, const image::Socket &saved)
{
    if (saved.shutdown != 0 && shutdown(fd, static_cast<int>(saved.shutdown) - 1) != 0)
        return Error::from_errno("shutting a socket down", errno);
    return {};
}

Result<void> open_pair(Planning &p, const image::Socket &saved)
{
    int fds[2];
    if (socketpair(AF_UNIX, static_cast<int>(saved.kind) | SOCK_CLOEXEC, 0, fds) != 0)
        return Error::from_errno("making a pair of sockets", errno);
    Fd one(fds[0]);
    Fd two(fds[1]);
    const auto other = p.saved.sockets.find(saved.peer_open_file);
    const bool both = saved.state == SocketState::pair && other != p.saved.sockets.end() &&
                      other->second.state == SocketState::pair;
    Result<void> done = set_options(one.get(), saved);
    if (done && both)
        done = set_options(two.get(), other->second);
    if (done)
        done = fill(p, saved, two.get());
    if (done && both)
        done = fill(p, other->second, one.get());
    if (done)
        done = shut(one.get(), saved);
    if (done && both)
        done = shut(two.get(), other->second);
    if (done)
        done = keep(p, std::move(one), saved);
    if (done && both)
        done = keep(p, std::move(two), other->second);
    return done;
}

Result<void> open_one(Planning &p, const image::Socket &saved)
{
    if (saved.state == SocketState::pair ||
        (saved.state == SocketState::closed && saved.domain == AF_UNIX))
        return open_pair(p, saved);
    Result<Fd> made = make(saved);
    if (!made)
        return made.error();
    const bool unnamed = saved.local.size() <= sizeof(sa_family_t);
    if (saved.state != SocketState::fresh && saved.state != SocketState::closed && !unnamed) {
        if (Result<void> named = name_it(p, made->get(), saved); !named)
            return named;
    }
    if (saved.state == SocketState::listening) {
        if (listen(made->get(), static_cast<int>(saved.backlog)) != 0)
            return Error::from_errno("listening again", errno);
    } else if (saved.state == SocketState::connected_datagram) {
        const Address peer(saved.peer);
        const InDirectory inside{std::string(p.saved.process.cwd)};
        // As when its receiver went away while the program ran: it finds out when it sends.
        if (connect(made->get(), peer.get(), peer.size) != 0)
            p.plan.notices.push_back(
                fmt::format("descriptor {}: nobody is there at {} ({}); it is not connected",
                            descriptor_of(p, saved.open_file), peer.text(), strerror(errno)));
    }
    return keep(p, std::move(*made), saved);
}

} // namespace

Result<void> open_sockets(Planning &p)
{
    // Those that have a name before those that send to one.
    for (const bool sends : {false, true}) {
        for (const auto &[id, socket] : p.saved.sockets) {
            if (is_opened(p, id) || (socket.state == SocketState::connected_datagram) != sends)
                continue;
            if (Result<void> done = open_one(p, socket); !done)
                return done.error().within(fmt::format("descriptor {}", descriptor_of(p, id)));
            if (socket.state == SocketState::closed && socket.domain != AF_UNIX)
                p.plan.notices.push_back(fmt::format("descriptor {}, a connection, is closed now",
                                                     descriptor_of(p, id)));
        }
    }
    return {};
}

// Who connects is told the process that listens: not cr_restart.
void plan_listeners(Planning &p)
{
    for (const auto &[id, socket] : p.saved.sockets) {
        if (p.saved.listeners.count(id) != 0 && socket.domain == AF_UNIX)
            p.plan.program.call("listening again", SYS_listen,
                                {value(descriptor_of(p, id)), value(socket.backlog)});
    }
}

} // namespace cryo::restore
