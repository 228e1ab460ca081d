// SPDX-License-Identifier: Apache-2.0
// Sockets and their addresses in words.
#include "look/other_look.hpp"
#include "look/socket_look.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace cryo::capture {

bool is_unnamed(const std::string &address)
{
    sockaddr_storage storage = {};
    memcpy(&storage, address.data(), std::min(address.size(), sizeof(storage)));
    if (storage.ss_family == AF_INET)
        return reinterpret_cast<const sockaddr_in &>(storage).sin_port == 0;
    if (storage.ss_family == AF_INET6)
        return reinterpret_cast<const sockaddr_in6 &>(storage).sin6_port == 0;
    if (storage.ss_family == AF_NETLINK)
        return reinterpret_cast<const sockaddr_nl &>(storage).nl_pid == 0;
    return address.size() <= offsetof(sockaddr_un, sun_path);
}

std::string printable_address(const std::string &address)
{
    sockaddr_storage storage = {};
    memcpy(&storage, address.data(), std::min(address.size(), sizeof(storage)));
    char text[INET6_ADDRSTRLEN] = "";
    if (storage.ss_family == AF_INET) {
        const auto &in = reinterpret_cast<const sockaddr_in &>(storage);
        inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text));
        return fmt::format("{}:{}", text, ntohs(in.sin_port));
    }
    if (storage.ss_family == AF_INET6) {
        const auto &in = reinterpret_cast<const sockaddr_in6 &>(storage);
        inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof(text));
        return fmt::format("[{}]:{}", text, ntohs(in.sin6_port));
    }
    if (storage.ss_family == AF_PACKET)
        return fmt::format("protocol {:#06x}",
                           ntohs(reinterpret_cast<const sockaddr_ll &>(storage).sll_protocol));
    const auto &netlink = reinterpret_cast<const sockaddr_nl &>(storage);
    if (storage.ss_family == AF_NETLINK)
        return netlink.nl_pid != 0 ? fmt::format("port {}", netlink.nl_pid) : "a multicast group";
    if (is_unnamed(address))
        return "an unnamed socket";
    std::string name = address.substr(offsetof(sockaddr_un, sun_path));
    if (name.front() == 0)
        return "@" + name.substr(1);
    return name.substr(0, name.find('\0')); // the length may include the terminator
}

std::string unix_path(const std::string &address)
{
    constexpr size_t head = offsetof(sockaddr_un, sun_path);
    sa_family_t family = 0;
    memcpy(&family, address.data(), std::min(address.size(), sizeof(family)));
    if (family != AF_UNIX || address.size() <= head || address[head] == 0)
        return {};
    return address.c_str() + head;
}

namespace {

bool is_mptcp(const SocketLook &look)
{
    constexpr int mptcp = 262; // IPPROTO_MPTCP, for older headers
    return look.protocol == mptcp;
}

std::string other_family(const SocketLook &look)
{
    switch (look.domain) {
    case AF_NETLINK:
        return fmt::format("netlink, protocol {}", look.protocol);
    case AF_PACKET:
        return look.interface.empty() ? "packets of network devices"
                                      : "packets of the network device " + look.interface;
    case AF_ALG:
        return "of the kernel's cryptography (AF_ALG)";
    case AF_VSOCK:
        return "between virtual machines (AF_VSOCK)";
    default:
        return fmt::format("family {} type {}", look.domain, look.kind);
    }
}

} // namespace

std::string describe_socket(const SocketLook &look)
{
    const bool internet = look.domain == AF_INET || look.domain == AF_INET6;
    std::string text;
    if (internet)
        text = is_mptcp(look)                     ? "MPTCP"
               : look.kind == SOCK_STREAM         ? "TCP"
               : look.kind != SOCK_DGRAM          ? "raw IP"
               : look.protocol == IPPROTO_UDPLITE ? "UDP-Lite"
               : is_other(look)                   ? "ICMP"
                                                  : "UDP";
    else if (look.domain == AF_UNIX)
        text = look.kind == SOCK_STREAM  ? "UNIX stream"
               : look.kind == SOCK_DGRAM ? "UNIX datagram"
                                         : "UNIX packets";
    else if (look.domain == AF_NETLINK)
        text = other_family(look);
    else
        return other_family(look);
    if (look.listening)
        return text + " listening at " + printable_address(look.local);
    if (look.bound)
        text += (look.domain == AF_NETLINK ? ", " : " ") + printable_address(look.local);
    if (look.connected && !look.peer.empty())
        text += " connected to " + printable_address(look.peer);
    return text;
}

} // namespace cryo::capture
