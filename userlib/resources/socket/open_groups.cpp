// SPDX-License-Identifier: Apache-2.0
// Groups of multicasts that internet sockets have joined, and what packet sockets have: joined
// again, on the interface of the old name.
#include "resources/socket/filling.hpp"

#include "look/multicast.hpp"
#include "resources/descriptor_text.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace cryo::resources {

namespace {

std::string printable(std::string_view address)
{
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(address.size() == sizeof(in_addr) ? AF_INET : AF_INET6, address.data(), text,
              sizeof(text));
    return text;
}

Error failure(int why, const std::string &what)
{
    const bool limited = why == ENOBUFS || why == ENOMEM;
    return Error(why, fmt::format("{}: {}{}", what, strerror(why),
                                  limited ? ": see the sysctls net.ipv4.igmp_max_memberships, "
                                            "net.ipv4.igmp_max_msf, net.ipv6.mld_max_msf and "
                                            "net.core.optmem_max"
                                          : ""));
}

Result<void> join(int fd, const image::GroupMember &saved)
{
    const std::string_view group = image::as_text(saved.group);
    const std::string_view sources = image::as_text(saved.sources);
    if ((group.size() != sizeof(in_addr) && group.size() != sizeof(in6_addr)) ||
        sources.size() % group.size() != 0)
        return Error(EINVAL, "a multicast group has an address of an unknown kind");
    const std::string interface(saved.interface);
    const std::string what = fmt::format("joining {} on {}", printable(group), interface);
    const unsigned index = if_nametoindex(interface.c_str());
    if (index == 0)
        return Error(ENODEV, fmt::format("there is no network device {} here, on which a socket "
                                         "had joined {}: give one that name before the restart",
                                         interface, printable(group)));
    const int level = capture::level_of_group(group);
    const group_req whole = {index, capture::as_group_address(group)};
    if ((!saved.only_sources || sources.empty()) &&
        setsockopt(fd, level, MCAST_JOIN_GROUP, &whole, sizeof(whole)) != 0)
        return failure(errno, what);
    group_source_req one = {index, whole.gr_group, {}};
    for (size_t at = 0; at < sources.size(); at += group.size()) {
        const std::string_view source = sources.substr(at, group.size());
        one.gsr_source = capture::as_group_address(source);
        if (setsockopt(fd, level, saved.only_sources ? MCAST_JOIN_SOURCE_GROUP : MCAST_BLOCK_SOURCE,
                       &one, sizeof(one)) != 0)
            return failure(errno, fmt::format("{}, source {}", what, printable(source)));
    }
    // A member that receives from no source: leaving a source that is not there fails, but first
    // changes a membership without sources to one that receives from its sources only.
    if (saved.only_sources && sources.empty()) {
        one.gsr_source = whole.gr_group;
        setsockopt(fd, level, MCAST_LEAVE_SOURCE_GROUP, &one, sizeof(one));
    }
    const auto now = capture::read_source_filter(fd, index, group);
    if (!now)
        return now.error();
    if (!*now || (*now)->only_sources != saved.only_sources ||
        (*now)->sources.size() != sources.size())
        return Error(ENOTSUP, what + ": the kernel has other sources for it now");
    return {};
}

// What a packet socket hears besides what is for this machine.
Result<void> join_packets(int fd, const image::GroupMember &saved)
{
    constexpr size_t most = 32; // MAX_ADDR_LEN
    struct {
        packet_mreq head;
        char rest[most - sizeof(packet_mreq::mr_address)];
    } wanted = {};
    if (saved.group.size() > most || saved.packets > UINT16_MAX)
        return Error(EINVAL, "a packet socket has joined what is no address");
    const std::string interface(saved.interface);
    const unsigned index = if_nametoindex(interface.c_str());
    if (index == 0)
        return Error(ENODEV, fmt::format("there is no network device {} here, on which a packet "
                                         "socket has joined something: give one that name before "
                                         "the restart",
                                         interface));
    wanted.head.mr_ifindex = static_cast<int>(index);
    wanted.head.mr_type = static_cast<uint16_t>(saved.packets - 1);
    wanted.head.mr_alen = static_cast<uint16_t>(saved.group.size());
    memcpy(reinterpret_cast<char *>(&wanted) + offsetof(packet_mreq, mr_address),
           saved.group.data(), saved.group.size());
    return setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &wanted, sizeof(wanted)) == 0
               ? Result<void>()
               : Error::from_errno("joining on " + interface + " (PACKET_ADD_MEMBERSHIP)", errno);
}

} // namespace

Result<void> join_multicasts(const Opening &opening)
{
    const auto &sockets = opening.of<image::Socket>();
    for (const image::GroupMember &one : opening.of<image::GroupMember>()) {
        const auto socket = sockets.find(one.socket);
        const int fd = opening.made(one.socket);
        const uint32_t domain = socket != sockets.end() && fd >= 0 ? socket->second.domain : 0;
        const bool of_packets = one.packets != 0 && domain == AF_PACKET;
        if (!of_packets && (one.packets != 0 || (domain != AF_INET && domain != AF_INET6)))
            return Error(EINVAL,
                         "an object that is no internet socket has joined a multicast group");
        if (opening.is_redirected(one.socket))
            continue;
        if (Result<void> done = of_packets ? join_packets(fd, one) : join(fd, one); !done)
            return done.error().within(descriptor_text(opening.descriptor(one.socket)));
    }
    return {};
}

} // namespace cryo::resources
