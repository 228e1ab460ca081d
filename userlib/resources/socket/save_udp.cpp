// SPDX-License-Identifier: Apache-2.0
// UDP on the loopback interface: connected peers, and the senders of queued datagrams. A restart
// sends all of them again within this machine, so all of them must have come from this machine.
#include "resources/socket/looked_at.hpp"

#include "base/fd.hpp"
#include "look/internet_address.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace cryo::resources {

using capture::InternetAddress;
using capture::SocketLook;

namespace {

// Whether it is an IPv6 socket that accepts IPv4 as well.
bool takes_both(const SocketLook &look)
{
    for (size_t i = 0; i + 2 < look.options.size(); i += 3) {
        if (look.options[i] == IPPROTO_IPV6 && look.options[i + 1] == IPV6_V6ONLY)
            return look.domain == AF_INET6 && look.options[i + 2] == 0;
    }
    return false;
}

bool gets(const SocketLook &look, const InternetAddress &address)
{
    return capture::is_udp(look) && InternetAddress(look.local).takes(address, takes_both(look));
}

// Whether the address is unused, so that a restart could bind it.
bool is_free(const InternetAddress &address)
{
    const int family = address.is_four() ? AF_INET : AF_INET6;
    sockaddr_storage storage;
    const socklen_t size = address.as(family, storage);
    const Fd fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return fd && bind(fd.get(), reinterpret_cast<const sockaddr *>(&storage), size) == 0;
}

} // namespace

bool is_on_loopback(const SocketLook &look)
{
    return InternetAddress(look.peer).is_loopback() && InternetAddress(look.local).is_loopback();
}

std::string udp_problem(const LookedAt &sockets, const SeenSocket &socket)
{
    const InternetAddress local(socket.look.local);
    if (socket.queue->way_told)
        return "with datagrams of which it is told how they came (IP_PKTINFO and its like)";
    if (!local.is_any() && !local.is_loopback())
        return "with datagrams for an address that is not one of the loopback interface";
    for (const std::string &name : socket.queue->senders) {
        const InternetAddress sender(name);
        if (name.empty() || !sender.is_loopback() || sender.port() == 0)
            return fmt::format("with datagrams from outside, {}", capture::printable_address(name));
        const InternetAddress to = local.is_any() ? sender.usual(local.port()) : local;
        const auto takers = std::ranges::count_if(
            sockets, [&](const auto &one) { return gets(one.second.look, to); });
        if (takers != 1 || to.is_four() != sender.is_four())
            return "with datagrams, at a port that another socket has, too";
        bool ours = false, exact = false;
        for (const auto &[inode, other] : sockets) {
            ours |= gets(other.look, sender);
            exact |= capture::is_udp(other.look) && InternetAddress(other.look.local).same(sender);
        }
        // A socket bound to all addresses sends from the usual one.
        if (!exact && ours && !sender.is_usual())
            return fmt::format("with datagrams of {}, an address that its sender chose for them",
                               capture::printable_address(name));
        if (!ours && !is_free(sender))
            return fmt::format("with datagrams of {}, an address that a process outside has",
                               capture::printable_address(name));
    }
    return {};
}

} // namespace cryo::resources
