// SPDX-License-Identifier: Apache-2.0
// Datagrams queued in an unconnected socket: sent again under
// their senders' names, most of whose sockets are gone.
#include "resources/socket/filling.hpp"

#include "base/fd.hpp"
#include "base/passing.hpp"
#include "resources/socket/file_rights.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::resources {

namespace {

// A temporary socket to send from.
Result<Fd> new_sender()
{
    Fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd)
        return Error::from_errno("making a socket", errno);
    // The old sender may have had more buffer space than a new one. Only root may
    // exceed the system's limit; if that matters, sending fails with an error.
    const int room = 16 << 20;
    if (setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) != 0)
        setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    return fd;
}

// A closed socket, or an end of a pair, may have been restored without its name.
bool has_name(int fd, image::Bytes name)
{
    sockaddr_storage now = {};
    socklen_t size = sizeof(now);
    return getsockname(fd, reinterpret_cast<sockaddr *>(&now), &size) == 0 && size == name.size() &&
           std::equal(name.begin(), name.end(), reinterpret_cast<const uint8_t *>(&now));
}

class FormerSenders
{
  public:
    explicit FormerSenders(Opening &opening) : opening_(opening) {}
    ~FormerSenders()
    {
        for (const Named &one : named_) {
            if (one.remove)
                unlink(one.name.path());
        }
    }
    FormerSenders(const FormerSenders &) = delete;
    FormerSenders &operator=(const FormerSenders &) = delete;

    // A socket with this name, to send from.
    Result<int> find(image::Bytes name);

  private:
    struct Named {
        SocketName name;
        Fd fd;
        bool remove; // its file was not there before
    };
    int restored(image::Bytes name) const;
    Result<Named> make(image::Bytes name) const;

    Opening &opening_;
    std::vector<Named> named_;
    Fd unnamed_;
};

// The program's own socket that has this name, or −1.
int FormerSenders::restored(image::Bytes name) const
{
    for (const auto &[id, socket] : opening_.of<image::Socket>()) {
        const int fd = opening_.made(id);
        if (socket.domain == AF_UNIX && socket.kind == SOCK_DGRAM &&
            std::ranges::equal(socket.local, name) && fd >= 0 && !opening_.is_redirected(id) &&
            has_name(fd, name))
            return fd;
    }
    return -1;
}

// A file left by a dead socket is replaced by this socket's file,
// with the same rights, which stays behind as dead as the other.
Result<FormerSenders::Named> FormerSenders::make(image::Bytes bytes) const
{
    Result<Fd> fd = new_sender();
    if (!fd)
        return fd.error();
    Named made = {SocketName(bytes), std::move(*fd), false};
    const char *path = made.name.path();
    struct stat before;
    const bool was_there = path != nullptr && lstat(path, &before) == 0;
    if (Result<void> removed = remove_stale(made.name, SOCK_DGRAM); !removed)
        return removed.error();
    if (bind(made.fd.get(), made.name.get(), made.name.size) != 0)
        return Error::from_errno("taking it", errno);
    made.remove = path != nullptr && !was_there;
    if (!was_there)
        return made;
    const Result<std::string> lost =
        give_rights(made.fd.get(), path, {before.st_mode, before.st_uid, before.st_gid});
    if (!lost)
        return lost.error();
    if (!lost->empty())
        opening_.notice(*lost);
    return made;
}

Result<int> FormerSenders::find(image::Bytes name)
{
    if (name.empty()) {
        // One for each datagram, so that none has more than one in flight.
        Result<Fd> fresh = new_sender();
        if (!fresh)
            return fresh.error();
        unnamed_ = std::move(*fresh);
        return unnamed_.get();
    }
    if (const int fd = restored(name); fd >= 0)
        return fd;
    for (const Named &one : named_) {
        if (one.name.size == name.size() &&
            std::equal(name.begin(), name.end(),
                       reinterpret_cast<const uint8_t *>(&one.name.storage)))
            return one.fd.get();
    }
    Result<Named> made = make(name);
    if (!made)
        return made.error().within("the name of who has sent a datagram, " +
                                   SocketName(name).text());
    return named_.emplace_back(std::move(*made)).fd.get();
}

} // namespace

Result<void> send_datagrams(Opening &opening, const SocketName &address, const image::Socket &to,
                            const image::Senders &senders, std::string_view bytes,
                            const std::vector<std::vector<int>> &descriptors)
{
    if (to.domain != AF_UNIX || to.kind != SOCK_DGRAM || senders.sizes.size() != to.packets.size())
        return Error(EINVAL, "senders that do not belong to datagrams");
    FormerSenders former(opening);
    image::Bytes names = senders.names;
    for (size_t i = 0; i < to.packets.size(); i++) {
        const size_t part = to.packets[i], name = senders.sizes[i];
        if (part > bytes.size() || name > names.size() || name > sizeof(sockaddr_storage))
            return Error(EINVAL, "a datagram, or its sender, is not whole");
        Result<int> from = former.find(names.first(name));
        if (!from)
            return from.error();
        const ssize_t n = send_with(*from, bytes.substr(0, part), descriptors[i], MSG_DONTWAIT,
                                    {reinterpret_cast<const char *>(address.get()), address.size});
        if (n != static_cast<ssize_t>(part))
            return Error::from_errno(fmt::format("sending a datagram to {} again", address.text()),
                                     n < 0 ? errno : EIO);
        bytes.remove_prefix(part);
        names = names.subspan(name);
    }
    return {};
}

} // namespace cryo::resources
