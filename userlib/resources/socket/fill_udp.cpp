// SPDX-License-Identifier: Apache-2.0
// Queued UDP packets: sent again within this machine, from their original addresses. Most
// senders are the program's own sockets; for others the address is bound for a moment.
#include "resources/socket/filling.hpp"

#include "base/fd.hpp"
#include "base/patience.hpp"
#include "look/internet_address.hpp"
#include "look/socket_look.hpp"
#include "resources/socket/socket_options.hpp"

#include <cerrno>
#include <chrono>
#include <fmt/format.h>
#include <linux/sock_diag.h>
#include <list>
#include <sys/socket.h>
#include <thread>

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

namespace cryo::resources {

using capture::InternetAddress;

namespace {

std::string_view text_of(image::Bytes bytes)
{
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

std::string printable(const InternetAddress &address)
{
    sockaddr_storage storage;
    const socklen_t size = address.as(address.is_four() ? AF_INET : AF_INET6, storage);
    return capture::printable_address(std::string(reinterpret_cast<const char *>(&storage), size));
}

// The kernel's counts of the packets queued in a socket, and of those it had
// no room for. Peeking at the packets would leave marks (on empty ones).
struct Count {
    uint32_t memory = 0, dropped = 0;
};

Result<Count> count_in(int fd)
{
    uint32_t numbers[SK_MEMINFO_VARS] = {};
    socklen_t size = sizeof(numbers);
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, numbers, &size) != 0)
        return Error::from_errno("asking what waits in a socket", errno);
    return Count{numbers[SK_MEMINFO_RMEM_ALLOC], numbers[SK_MEMINFO_DROPS]};
}

class UdpSenders
{
  public:
    explicit UdpSenders(const Opening &opening) : opening_(opening) {}
    // A socket with this address, to send from.
    Result<int> find(const InternetAddress &address);

  private:
    int restored(const InternetAddress &address) const;

    struct Named {
        InternetAddress address;
        Fd fd;
    };
    const Opening &opening_;
    std::list<Named> named_;
};

// The program's own socket with this address, or one that takes all addresses; or −1.
int UdpSenders::restored(const InternetAddress &address) const
{
    int usual = -1;
    for (const auto &[id, socket] : opening_.of<image::Socket>()) {
        const int fd = opening_.made(id);
        if ((socket.domain != AF_INET && socket.domain != AF_INET6) || socket.kind != SOCK_DGRAM ||
            fd < 0 || opening_.is_redirected(id))
            continue;
        sockaddr_storage now = {};
        socklen_t size = sizeof(now);
        if (getsockname(fd, reinterpret_cast<sockaddr *>(&now), &size) != 0)
            continue;
        const InternetAddress local(
            std::string_view(reinterpret_cast<const char *>(&now), static_cast<size_t>(size)));
        if (local.same(address))
            return fd;
        int only = 0;
        socklen_t number = sizeof(only);
        if (socket.domain == AF_INET6)
            getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, &number);
        if (address.is_usual() && local.takes(address, only == 0))
            usual = fd;
    }
    return usual;
}

Result<int> UdpSenders::find(const InternetAddress &address)
{
    if (const int fd = restored(address); fd >= 0)
        return fd;
    for (const Named &one : named_) {
        if (one.address.same(address))
            return one.fd.get();
    }
    const int family = address.is_four() ? AF_INET : AF_INET6;
    sockaddr_storage storage;
    const socklen_t size = address.as(family, storage);
    Fd fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr *>(&storage), size) != 0)
        return Error::from_errno(
            "taking the address of who has sent a datagram, " + printable(address), errno);
    return named_.emplace_back(Named{address, std::move(fd)}).fd.get();
}

// Keeps the order: each packet has arrived before the next is sent.
Result<void> send_one(int from, const InternetAddress &to, std::string_view bytes, int receiver)
{
    Result<Count> before = count_in(receiver);
    if (!before)
        return before.error();
    int family = 0;
    socklen_t number = sizeof(family);
    getsockopt(from, SOL_SOCKET, SO_DOMAIN, &family, &number);
    sockaddr_storage storage;
    const socklen_t size = to.as(family, storage);
    const ssize_t sent = sendto(from, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                                reinterpret_cast<const sockaddr *>(&storage), size);
    if (sent != static_cast<ssize_t>(bytes.size()))
        return Error::from_errno(fmt::format("sending a datagram to {} again", printable(to)),
                                 sent < 0 ? errno : EIO);
    const auto end = std::chrono::steady_clock::now() + local_delivery_limit;
    for (;;) {
        Result<Count> now = count_in(receiver);
        if (!now)
            return now.error();
        if (now->dropped != before->dropped)
            return Error(ENOBUFS, fmt::format("sending a datagram to {} again: it has no room",
                                              printable(to)));
        if (now->memory > before->memory)
            return {};
        if (std::chrono::steady_clock::now() > end)
            return Error(ETIMEDOUT,
                         fmt::format("sending a datagram to {} again: it does not arrive; a packet "
                                     "filter, or another socket of this address, may take it",
                                     printable(to)));
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
}

} // namespace

Result<void> send_udp(const Opening &opening, const image::Socket &to,
                      const image::Senders &senders, std::string_view bytes)
{
    if (to.kind != SOCK_DGRAM || senders.sizes.size() != to.packets.size())
        return Error(EINVAL, "senders that do not belong to datagrams");
    const int receiver = opening.made(to.open_file);
    // The buffer may have been made smaller since the packets arrived.
    const int room = 16 << 20;
    if (setsockopt(receiver, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) != 0)
        setsockopt(receiver, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    const InternetAddress local(text_of(to.local));
    UdpSenders former(opening);
    image::Bytes names = senders.names;
    for (size_t i = 0; i < to.packets.size(); i++) {
        const size_t part = to.packets[i], name = senders.sizes[i];
        if (part > bytes.size() || name > names.size())
            return Error(EINVAL, "a datagram, or its sender, is not whole");
        const InternetAddress sender(text_of(names.first(name)));
        if (sender.port() == 0 || !sender.is_loopback())
            return Error(EINVAL, "a datagram that was not sent by this machine to itself");
        Result<int> from = former.find(sender);
        if (!from)
            return from.error();
        if (Result<void> sent = send_one(*from, local.is_any() ? sender.usual(local.port()) : local,
                                         bytes.substr(0, part), receiver);
            !sent)
            return sent;
        bytes.remove_prefix(part);
        names = names.subspan(name);
    }
    return set_socket_options(receiver, to);
}

} // namespace cryo::resources
