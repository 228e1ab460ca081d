// SPDX-License-Identifier: Apache-2.0
#include "look/other_look.hpp"

#include "look/multicast.hpp"
#include "look/packet_look.hpp"
#include "look/udp_look.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <poll.h>
#include <sstream>
#include <sys/socket.h>

namespace cryo::capture {

namespace {

bool is_ping(const SocketLook &look)
{
    return look.kind == SOCK_DGRAM &&
           ((look.domain == AF_INET && look.protocol == IPPROTO_ICMP) ||
            (look.domain == AF_INET6 && look.protocol == IPPROTO_ICMPV6));
}

template <class Address>
Address as(const std::string &bytes)
{
    Address address = {};
    memcpy(&address, bytes.data(), std::min(bytes.size(), sizeof(address)));
    return address;
}

template <class Address>
std::string as_bytes(const Address &address)
{
    return {reinterpret_cast<const char *>(&address), sizeof(address)};
}

// Protocols for which the kernel keeps only the groups of a socket. For other protocols it may keep
// more (a queue of packets, a registration, a process that receives events), and does not show it.
bool keeps_groups_only(int protocol)
{
    constexpr int protocols[] = {NETLINK_ROUTE,  NETLINK_USERSOCK,      NETLINK_SOCK_DIAG,
                                 NETLINK_XFRM,   NETLINK_SELINUX,       NETLINK_FIB_LOOKUP,
                                 NETLINK_CRYPTO, NETLINK_KOBJECT_UEVENT};
    return std::ranges::find(protocols, protocol) != std::end(protocols);
}

// Sets look.groups; false: the kernel does not report them.
bool read_groups(int fd, SocketLook &look)
{
    std::vector<uint32_t> bits(16384); // more than there are groups
    auto size = static_cast<socklen_t>(bits.size() * sizeof(bits[0]));
    if (getsockopt(fd, SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, bits.data(), &size) != 0 ||
        size > bits.size() * sizeof(bits[0]))
        return false;
    // Old kernels report a size that is too small, so all of the buffer is read.
    for (uint32_t i = 0; i < bits.size() * 32; i++) {
        if ((bits[i / 32] >> i % 32 & 1) != 0)
            look.groups.push_back(i + 1);
    }
    return true;
}

void look_at_netlink(int fd, SocketLook &look)
{
    // A socket that is not connected also has a peer's address: that of the kernel.
    const auto peer = as<sockaddr_nl>(look.peer);
    look.connected = peer.nl_pid != 0 || peer.nl_groups != 0;
    if (!look.connected)
        look.peer.clear();
    // The address has some of the groups, too; they are joined as the rest is.
    auto local = as<sockaddr_nl>(look.local);
    local.nl_groups = 0;
    look.local = as_bytes(local);
    if (!keeps_groups_only(look.protocol))
        look.problem = "of which the kernel does not tell what it keeps for it";
    else if (!read_groups(fd, look))
        look.problem = "of which the kernel does not tell the groups that it has joined";
}

// The table of sockets in which the kernel shows this one.
const char *table_of(const SocketLook &look)
{
    const bool four = look.domain == AF_INET;
    if (look.kind == SOCK_RAW)
        return four ? "/proc/self/net/raw" : "/proc/self/net/raw6";
    return four ? "/proc/self/net/icmp" : "/proc/self/net/icmp6";
}

// An address such as 0100007F:0000, of 4 or 16 bytes, each 4 of them as a number of this machine.
std::string parse_address(const std::string &text, int family)
{
    uint32_t words[4] = {};
    const size_t colon = std::min(text.find(':'), sizeof(words) * 2);
    for (size_t i = 0; i * 8 < colon; i++)
        words[i] = static_cast<uint32_t>(strtoul(text.substr(i * 8, 8).c_str(), nullptr, 16));
    const auto port = static_cast<uint16_t>(
        colon < text.size() ? strtoul(text.c_str() + colon + 1, nullptr, 16) : 0);
    if (family == AF_INET) {
        sockaddr_in in = {};
        in.sin_family = AF_INET;
        in.sin_port = htons(port);
        memcpy(&in.sin_addr, words, sizeof(in.sin_addr));
        return as_bytes(in);
    }
    sockaddr_in6 in = {};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    memcpy(&in.sin6_addr, words, sizeof(in.sin6_addr));
    return as_bytes(in);
}

// Where there is no port at the other end, getpeername(2) says that a socket is not connected.
// False: the kernel does not show this one.
bool find_peer(SocketLook &look, uint64_t inode)
{
    // One of ICMP gets an identifier, and its place in the table, when it is connected.
    if (look.connected || look.local_is_unnamed)
        return true;
    std::ifstream table(table_of(look));
    for (std::string line; std::getline(table, line);) {
        std::istringstream words(line);
        const std::vector<std::string> columns{std::istream_iterator<std::string>(words), {}};
        if (columns.size() < 10 || columns[9] != std::to_string(inode))
            continue;
        look.connected = columns[3] == "01"; // as an established connection is shown
        look.peer = look.connected ? parse_address(columns[2], look.domain) : std::string();
        return true;
    }
    return false;
}

bool is_of_one_link(const std::string &address)
{
    const auto in = as<sockaddr_in6>(address);
    return in.sin6_family == AF_INET6 &&
           (IN6_IS_ADDR_LINKLOCAL(&in.sin6_addr) || IN6_IS_ADDR_MC_LINKLOCAL(&in.sin6_addr));
}

// Empty: it leaves none out.
std::string filter_of_types(int fd)
{
    icmp6_filter filter = {};
    socklen_t size = sizeof(filter);
    const icmp6_filter none = {};
    const bool filters = getsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, &size) == 0 &&
                         memcmp(&filter, &none, sizeof(filter)) != 0;
    return filters ? as_bytes(filter) : std::string();
}

bool is_lite(const SocketLook &look)
{
    return look.kind == SOCK_DGRAM && look.protocol == IPPROTO_UDPLITE;
}

// A socket that was shut down for reading counts as readable, whether a datagram waits or not.
bool has_datagram(int fd)
{
    int offset = -1;
    socklen_t size = sizeof(offset);
    if (getsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &offset, &size) == 0 && offset >= 0)
        return true; // a look would move it
    char byte;
    return recv(fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC) >= 0;
}

std::string look_at_lite(int fd, SocketLook &look, uint64_t inode)
{
    constexpr uint32_t reading = 1;
    const Result<uint32_t> shutdown = udp_shutdown(fd, look.local, inode);
    look.passing = !shutdown && may_tell_later(shutdown.error());
    if (!shutdown)
        return untold_shutdown(shutdown.error());
    look.shutdown = *shutdown;
    if ((*shutdown & reading) != 0 && look.unread && !look.failed)
        look.unread = has_datagram(fd);
    return {};
}

void look_at_internet(int fd, SocketLook &look, uint64_t inode)
{
    const bool raw = look.kind == SOCK_RAW;
    pollfd end = {fd, POLLRDHUP, 0};
    if ((raw || is_ping(look)) && !find_peer(look, inode))
        look.problem = fmt::format("which this kernel does not show in {}", table_of(look));
    else if (look.connected && is_of_one_link(look.peer))
        look.problem = "connected to an address that is one of a link only";
    else if (is_lite(look))
        look.problem = look_at_lite(fd, look, inode);
    else if (poll(&end, 1, 0) == 1 && (end.revents & (POLLRDHUP | POLLHUP)) != 0)
        look.problem = "which was shut down";
    else if (raw && look.domain == AF_INET && look.protocol == IPPROTO_IGMP &&
             is_multicast_router_of_4_here())
        look.problem = "by which the program may route multicasts (MRT_INIT)";
    else if (raw && look.protocol == IPPROTO_ICMPV6 && is_multicast_router_here())
        look.problem = "by which the program may route multicasts (MRT6_INIT)";
    if (raw && look.domain == AF_INET6 && look.protocol == IPPROTO_ICMPV6)
        look.type_filter = filter_of_types(fd);
    look.peer_is_unnamed = !look.connected;
}

} // namespace

bool is_other(const SocketLook &look)
{
    if (look.domain == AF_NETLINK)
        return true;
    if (look.domain == AF_PACKET)
        return look.kind == SOCK_RAW || look.kind == SOCK_DGRAM;
    if (look.domain != AF_INET && look.domain != AF_INET6)
        return false;
    return look.kind == SOCK_RAW || is_ping(look) || is_lite(look);
}

void look_at_other(int fd, SocketLook &look, uint64_t inode)
{
    if (look.domain == AF_NETLINK)
        look_at_netlink(fd, look);
    else if (look.domain == AF_PACKET)
        look_at_packet(fd, look, inode);
    else
        look_at_internet(fd, look, inode);
}

void look_at_filter(int fd, SocketLook &look)
{
    int locked = 0;
    socklen_t size = sizeof(locked);
    look.filter_locked =
        getsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &locked, &size) == 0 && locked != 0;
    // The size is a number of instructions.
    socklen_t count = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, nullptr, &count) != 0) {
        if (errno == EACCES)
            look.problem = "with a filter that is an eBPF program (SO_ATTACH_BPF)";
        return;
    }
    std::vector<sock_filter> program(count);
    if (count == 0)
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, program.data(), &count) != 0 ||
        count != program.size()) {
        look.problem = "with a filter that the kernel does not tell";
        return;
    }
    for (const sock_filter &one : program)
        look.filter.push_back(uint64_t(one.code) | uint64_t(one.jt) << 16 | uint64_t(one.jf) << 24 |
                              uint64_t(one.k) << 32);
}

} // namespace cryo::capture
