// SPDX-License-Identifier: Apache-2.0
// Rare properties of sockets: netlink groups, filters, congestion control; and kinds of sockets
// that not every user may open.
#include "resources/socket/open_more.hpp"

#include "base/fd.hpp"
#include "resources/descriptor_text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace cryo::resources {

namespace {

bool is_internet(const image::Socket &socket)
{
    return socket.domain == AF_INET || socket.domain == AF_INET6;
}

bool is_raw(const image::Socket &socket)
{
    return is_internet(socket) && socket.kind == SOCK_RAW;
}

bool may_be_denied(const image::Socket &socket)
{
    return socket.kind == SOCK_RAW || socket.domain == AF_NETLINK || socket.domain == AF_PACKET ||
           (is_internet(socket) && socket.kind == SOCK_DGRAM && socket.protocol != IPPROTO_UDP);
}

const char *way_out(const image::Socket &socket, int why)
{
    if (why == EPERM)
        return ", which takes CAP_NET_RAW: run cr_restart with that privilege, as root has it";
    if (why == EACCES && is_internet(socket))
        return ": no group of this user is one of the sysctl net.ipv4.ping_group_range";
    if (why == EPROTONOSUPPORT || why == EAFNOSUPPORT)
        return ": this kernel has no such sockets";
    return "";
}

bool connects_within(const Opening &opening)
{
    return std::ranges::any_of(opening.of<image::Socket>(), [](const auto &one) {
        return one.second.state == image::SocketState::pair && is_internet(one.second);
    });
}

// Whether the filter is set at the end: it must not drop connections and data of this restart,
// which passed it before the checkpoint. A listener to which this restart does not connect gets its
// filter before any other process can connect.
bool is_filled(const Opening &opening, const image::Socket &socket)
{
    if (is_internet(socket) && socket.state == image::SocketState::listening)
        return connects_within(opening);
    return (socket.kind != SOCK_DGRAM && socket.kind != SOCK_RAW) ||
           socket.state == image::SocketState::pair ||
           (socket.state == image::SocketState::closed && socket.domain == AF_UNIX) ||
           opening.of<image::Senders>().count(socket.open_file) != 0;
}

Result<void> filter_types(const Opening &opening, int fd, const image::Socket &saved)
{
    const auto more = opening.of<image::SocketMore>().find(saved.open_file);
    if (more == opening.of<image::SocketMore>().end() || more->second.type_filter.empty())
        return {};
    const image::Bytes types = more->second.type_filter;
    if (types.size() != sizeof(icmp6_filter) ||
        setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, types.data(),
                   static_cast<socklen_t>(types.size())) != 0)
        return Error(EINVAL, "a filter of types of messages (ICMP6_FILTER) is not one of a raw "
                             "ICMPv6 socket");
    return {};
}

Result<void> attach_filter(int fd, const image::SocketMore &more)
{
    std::vector<sock_filter> program;
    for (size_t i = 0; i < more.filter.size(); i++) {
        const uint64_t one = more.filter[i];
        program.push_back({static_cast<uint16_t>(one), static_cast<uint8_t>(one >> 16),
                           static_cast<uint8_t>(one >> 24), static_cast<uint32_t>(one >> 32)});
    }
    if (program.size() > BPF_MAXINSNS)
        return Error(EINVAL, "a socket's filter is too long");
    const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
    if (!program.empty() &&
        setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) != 0)
        return Error::from_errno("attaching a socket's filter", errno);
    const int yes = 1;
    if (more.filter_locked && setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &yes, sizeof(yes)) != 0)
        return Error::from_errno("locking a socket's filter", errno);
    return {};
}

} // namespace

Result<void> may_open_sockets(const Opening &opening)
{
    for (const auto &[id, socket] : opening.of<image::Socket>()) {
        if (opening.is_opened(id) || !may_be_denied(socket))
            continue;
        const Fd tried(::socket(static_cast<int>(socket.domain),
                                static_cast<int>(socket.kind) | SOCK_CLOEXEC,
                                static_cast<int>(socket.protocol)));
        if (const int why = errno; !tried)
            return Error(why, fmt::format("{}: opening a socket of family {}, type {}, "
                                          "protocol {}: {}{}",
                                          descriptor_text(opening.descriptor(id)), socket.domain,
                                          socket.kind, socket.protocol, strerror(why),
                                          way_out(socket, why)));
    }
    return {};
}

Result<void> filter_first(const Opening &opening, int fd, const image::Socket &saved)
{
    const auto more = opening.of<image::SocketMore>().find(saved.open_file);
    if (more == opening.of<image::SocketMore>().end() || is_filled(opening, saved) || is_raw(saved))
        return {};
    return attach_filter(fd, more->second);
}

Result<void> start_raw(const Opening &opening, int fd, const image::Socket &saved)
{
    if (!is_raw(saved))
        return {};
    if (Result<void> done = filter_types(opening, fd, saved); !done)
        return done;
    sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog filter = {1, &nothing};
    const int unused = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) != 0)
        return Error::from_errno("attaching a socket's filter", errno);
    char byte;
    while (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0)
        ;
    const auto more = opening.of<image::SocketMore>().find(saved.open_file);
    if (more != opening.of<image::SocketMore>().end() && !more->second.filter.empty())
        return attach_filter(fd, more->second);
    if (setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused)) != 0)
        return Error::from_errno("detaching a socket's filter", errno);
    return more == opening.of<image::SocketMore>().end() ? Result<void>()
                                                         : attach_filter(fd, more->second);
}

Result<void> share_packets(int fd, const image::Socket &saved)
{
    for (size_t i = 0; i + 2 < saved.options.size(); i += 3) {
        if (saved.domain != AF_PACKET || saved.options[i] != SOL_PACKET ||
            saved.options[i + 1] != PACKET_FANOUT)
            continue;
        const auto group = static_cast<uint32_t>(saved.options[i + 2]);
        if (setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &group, sizeof(group)) != 0)
            return Error(errno, fmt::format("sharing packets with others (PACKET_FANOUT {}): {}: "
                                            "another program may have a group of this number",
                                            group & UINT16_MAX, strerror(errno)));
    }
    return {};
}

Result<void> filter_filled(const Opening &opening)
{
    for (const auto &[id, more] : opening.of<image::SocketMore>()) {
        const auto socket = opening.of<image::Socket>().find(id);
        const int fd = opening.made(id);
        if (socket == opening.of<image::Socket>().end() || fd < 0)
            return Error(EINVAL, "an object that is no socket has a filter, or is in groups");
        if (opening.is_redirected(id) || !is_filled(opening, socket->second))
            continue;
        if (Result<void> done = attach_filter(fd, more); !done)
            return done.error().within(descriptor_text(opening.descriptor(id)));
    }
    return {};
}

Result<void> find_interface(const Opening &opening, const image::Socket &saved,
                            sockaddr_storage &address)
{
    const auto more = opening.of<image::SocketMore>().find(saved.open_file);
    if (address.ss_family != AF_PACKET || more == opening.of<image::SocketMore>().end() ||
        more->second.interface.empty())
        return {};
    const std::string name(more->second.interface);
    const unsigned index = if_nametoindex(name.c_str());
    if (index == 0)
        return Error(ENODEV, fmt::format("there is no network device {} here, to which a socket "
                                         "was bound",
                                         name));
    reinterpret_cast<sockaddr_ll &>(address).sll_ifindex = static_cast<int>(index);
    return {};
}

void choose_congestion(Opening &opening, int fd, const image::Socket &saved)
{
    const auto more = opening.of<image::SocketMore>().find(saved.open_file);
    if (more == opening.of<image::SocketMore>().end() || more->second.congestion.empty())
        return;
    const std::string name(more->second.congestion);
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                   static_cast<socklen_t>(name.size())) == 0)
        return;
    const int why = errno;
    const char *reason = why == ENOENT  ? "this kernel does not have it, or not loaded"
                         : why == EPERM ? "this user may not choose it "
                                          "(net.ipv4.tcp_allowed_congestion_control)"
                                        : strerror(why);
    opening.notice(fmt::format("the congestion control {} of a TCP socket, {}, is the "
                               "system's default now: {}",
                               name, descriptor_text(opening.descriptor(saved.open_file)), reason));
}

Result<void> join_groups(const Opening &opening, int fd, const image::Socket &saved)
{
    const auto more = opening.of<image::SocketMore>().find(saved.open_file);
    if (saved.domain != AF_NETLINK || more == opening.of<image::SocketMore>().end())
        return {};
    for (size_t i = 0; i < more->second.groups.size(); i++) {
        const auto group = static_cast<int>(more->second.groups[i]);
        if (setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) != 0)
            return Error::from_errno(
                fmt::format("joining group {} of netlink's protocol {}", group, saved.protocol),
                errno);
    }
    return {};
}

} // namespace cryo::resources
