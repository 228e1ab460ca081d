// SPDX-License-Identifier: Apache-2.0
//
// The options of a socket that an image holds: triples of level, name and value, as the field
// `options` of SOCKET has them.
//
//     std::vector<uint64_t> saved = read_socket_options(fd, AF_INET, SOCK_STREAM);
//     const int failed = set_socket_option(fd, level, name, value); // 0 or errno
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <vector>

#include "image/checksum.hpp"

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72 // since Linux 5.14; libc's headers may be older
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29 // since Linux 4.20
#endif
#ifndef PACKET_VNET_HDR_SZ
#define PACKET_VNET_HDR_SZ 24 // since Linux 6.4
#endif

namespace cryo::image {

struct SocketOption {
    int level, name;
    int domain; // only in this domain; 0: in any; AF_INET: AF_INET6 as well
    int kind;   // 0: any; SOCK_DGRAM: SOCK_RAW as well
};

// Linux's headers for these do not go with those of libc.
inline constexpr int icmp_filter_option = 1;
inline constexpr int udplite_sent_coverage = 10, udplite_received_coverage = 11;

inline constexpr SocketOption socket_options[] = {
    {SOL_SOCKET, SO_REUSEADDR, 0, 0},
    {SOL_SOCKET, SO_REUSEPORT, 0, 0},
    {SOL_SOCKET, SO_KEEPALIVE, 0, 0},
    {SOL_SOCKET, SO_BROADCAST, 0, 0},
    {SOL_SOCKET, SO_OOBINLINE, 0, 0},
    {SOL_SOCKET, SO_PASSCRED, AF_UNIX, 0},
    {SOL_SOCKET, SO_PASSCRED, AF_NETLINK, 0},
    {SOL_SOCKET, SO_RCVBUF, 0, 0},
    {SOL_SOCKET, SO_SNDBUF, 0, 0},
    {SOL_SOCKET, SO_BUF_LOCK, 0, 0}, // after the sizes, which set the lock themselves
    {SOL_SOCKET, SO_RCVLOWAT, 0, 0},
    {SOL_SOCKET, SO_MARK, 0, 0},
    // The interfaces to send by come before the socket's own: once it is bound to one, a
    // socket may choose no other, but it keeps what it has chosen before.
    {IPPROTO_IP, IP_MULTICAST_IF, AF_INET, SOCK_DGRAM}, // the kernel tells an address only
    {IPPROTO_IPV6, IPV6_MULTICAST_IF, AF_INET6, SOCK_DGRAM},
    {IPPROTO_IP, IP_UNICAST_IF, AF_INET, SOCK_DGRAM},
    {IPPROTO_IPV6, IPV6_UNICAST_IF, AF_INET6, SOCK_DGRAM},
    {SOL_SOCKET, SO_BINDTODEVICE, AF_INET, 0},
    {SOL_SOCKET, SO_TIMESTAMP, 0, 0},
    {SOL_SOCKET, SO_TIMESTAMPNS, 0, 0},
    {SOL_SOCKET, SO_LINGER, 0, 0},
    {SOL_SOCKET, SO_RCVTIMEO, 0, 0},
    {SOL_SOCKET, SO_SNDTIMEO, 0, 0},
    {IPPROTO_IP, IP_TOS, AF_INET, 0},
    {SOL_SOCKET, SO_PRIORITY, 0, 0}, // after the type of service, which sets it
    {IPPROTO_IP, IP_TTL, AF_INET, 0},
    {IPPROTO_IP, IP_MTU_DISCOVER, AF_INET, 0},
    {IPPROTO_IP, IP_RECVERR, AF_INET, 0},
    {IPPROTO_IP, IP_PKTINFO, AF_INET, SOCK_DGRAM},
    {IPPROTO_IP, IP_RECVTTL, AF_INET, SOCK_DGRAM},
    {IPPROTO_IP, IP_RECVTOS, AF_INET, SOCK_DGRAM},
    {IPPROTO_IP, IP_FREEBIND, AF_INET, 0},
    {IPPROTO_IP, IP_HDRINCL, AF_INET, SOCK_RAW},
    {IPPROTO_IP, IP_MULTICAST_TTL, AF_INET, SOCK_DGRAM},
    {IPPROTO_IP, IP_MULTICAST_LOOP, AF_INET, SOCK_DGRAM},
    {IPPROTO_IP, IP_MULTICAST_ALL, AF_INET, SOCK_DGRAM},
    {IPPROTO_IPV6, IPV6_V6ONLY, AF_INET6, 0},
    {IPPROTO_IPV6, IPV6_UNICAST_HOPS, AF_INET6, 0},
    {IPPROTO_IPV6, IPV6_TCLASS, AF_INET6, 0},
    {IPPROTO_IPV6, IPV6_RECVERR, AF_INET6, 0},
    {IPPROTO_IPV6, IPV6_RECVPKTINFO, AF_INET6, SOCK_DGRAM},
    {IPPROTO_IPV6, IPV6_RECVHOPLIMIT, AF_INET6, SOCK_DGRAM},
    {IPPROTO_IPV6, IPV6_RECVTCLASS, AF_INET6, SOCK_DGRAM},
    {IPPROTO_IPV6, IPV6_MULTICAST_HOPS, AF_INET6, SOCK_DGRAM},
    {IPPROTO_IPV6, IPV6_MULTICAST_LOOP, AF_INET6, SOCK_DGRAM},
    {IPPROTO_IPV6, IPV6_MULTICAST_ALL, AF_INET6, SOCK_DGRAM},
    {IPPROTO_IPV6, IPV6_HDRINCL, AF_INET6, SOCK_RAW},
    {IPPROTO_IPV6, IPV6_CHECKSUM, AF_INET6, SOCK_RAW},
    {SOL_RAW, icmp_filter_option, AF_INET, SOCK_RAW},
    {IPPROTO_UDPLITE, udplite_sent_coverage, AF_INET, SOCK_DGRAM},
    {IPPROTO_UDPLITE, udplite_received_coverage, AF_INET, SOCK_DGRAM},
    {SOL_NETLINK, NETLINK_PKTINFO, AF_NETLINK, 0},
    {SOL_NETLINK, NETLINK_BROADCAST_ERROR, AF_NETLINK, 0},
    {SOL_NETLINK, NETLINK_NO_ENOBUFS, AF_NETLINK, 0},
    {SOL_NETLINK, NETLINK_LISTEN_ALL_NSID, AF_NETLINK, 0},
    {SOL_NETLINK, NETLINK_CAP_ACK, AF_NETLINK, 0},
    {SOL_NETLINK, NETLINK_EXT_ACK, AF_NETLINK, 0},
    {SOL_NETLINK, NETLINK_GET_STRICT_CHK, AF_NETLINK, 0},
    {SOL_PACKET, PACKET_AUXDATA, AF_PACKET, 0},
    {SOL_PACKET, PACKET_ORIGDEV, AF_PACKET, 0},
    {SOL_PACKET, PACKET_VERSION, AF_PACKET, 0},
    {SOL_PACKET, PACKET_RESERVE, AF_PACKET, 0},
    {SOL_PACKET, PACKET_LOSS, AF_PACKET, 0},
    {SOL_PACKET, PACKET_VNET_HDR, AF_PACKET, 0},
    {SOL_PACKET, PACKET_VNET_HDR_SZ, AF_PACKET, 0}, // after the one that chooses a size
    {SOL_PACKET, PACKET_TIMESTAMP, AF_PACKET, 0},
    {SOL_PACKET, PACKET_TX_HAS_OFF, AF_PACKET, 0},
    {SOL_PACKET, PACKET_QDISC_BYPASS, AF_PACKET, 0},
    {SOL_PACKET, PACKET_IGNORE_OUTGOING, AF_PACKET, 0},
    {IPPROTO_TCP, TCP_NODELAY, AF_INET, SOCK_STREAM},
    {IPPROTO_TCP, TCP_CORK, AF_INET, SOCK_STREAM},
    {IPPROTO_TCP, TCP_SYNCNT, AF_INET, SOCK_STREAM},
    {IPPROTO_TCP, TCP_LINGER2, AF_INET, SOCK_STREAM},
    {IPPROTO_TCP, TCP_USER_TIMEOUT, AF_INET, SOCK_STREAM},
    {IPPROTO_TCP, TCP_KEEPIDLE, AF_INET, SOCK_STREAM},
    {IPPROTO_TCP, TCP_KEEPINTVL, AF_INET, SOCK_STREAM},
    {IPPROTO_TCP, TCP_KEEPCNT, AF_INET, SOCK_STREAM},
    {IPPROTO_TCP, TCP_DEFER_ACCEPT, AF_INET, SOCK_STREAM},
    {IPPROTO_TCP, TCP_NOTSENT_LOWAT, AF_INET, SOCK_STREAM},
    {IPPROTO_TCP, TCP_INQ, AF_INET, SOCK_STREAM},
};

// Options that hardly a program sets: an image holds those that have another value than usually.
struct RareOption {
    SocketOption option;
    uint64_t usual = 0;
};

// Numbers that libc's headers may lack or have for some architectures only.
inline constexpr int so_timestamp_new = 63, so_timestampns_new = 64, so_rcvmark = 75,
                     so_passpidfd = 76, so_rcvpriority = 82, so_passrights = 83;
inline constexpr int ip_recverr_rfc4884 = 26, ip_local_port_range = 51;
inline constexpr int ipv6_recverr_rfc4884 = 31, ipv6_flowinfo = 11, ipv6_flowinfo_send = 33,
                     ipv6_addr_preferences = 72, ipv6_usual_preferences = 0x500;
inline constexpr int udp_cork = 1, udp_no_check6_tx = 101, udp_no_check6_rx = 102,
                     udp_segment = 103, udp_gro = 104;

constexpr uint64_t no_peek_offset = 0xffffffff;

inline constexpr RareOption rare_options[] = {
    {{SOL_SOCKET, SO_DONTROUTE, 0, 0}},
    {{SOL_SOCKET, SO_NO_CHECK, 0, 0}},
    {{SOL_SOCKET, SO_PASSSEC, AF_UNIX, 0}},
    {{SOL_SOCKET, SO_RXQ_OVFL, 0, 0}},
    {{SOL_SOCKET, SO_WIFI_STATUS, 0, 0}},
    {{SOL_SOCKET, SO_NOFCS, 0, 0}},
    {{SOL_SOCKET, SO_SELECT_ERR_QUEUE, 0, 0}},
    {{SOL_SOCKET, SO_PEEK_OFF, AF_UNIX, 0}, no_peek_offset},
    {{SOL_SOCKET, SO_PEEK_OFF, AF_INET, SOCK_DGRAM}, no_peek_offset},
    {{SOL_SOCKET, SO_ZEROCOPY, AF_INET, 0}},
    {{SOL_SOCKET, SO_MAX_PACING_RATE, 0, 0}, 0xffffffff},
    {{SOL_SOCKET, SO_TIMESTAMPING, 0, SOCK_DGRAM}},
    {{SOL_SOCKET, SO_TIMESTAMPING, 0, SOCK_STREAM}},
    {{SOL_SOCKET, SO_TXTIME, 0, SOCK_DGRAM}},
    {{SOL_SOCKET, so_timestamp_new, 0, 0}},
    {{SOL_SOCKET, so_timestampns_new, 0, 0}},
    {{SOL_SOCKET, so_rcvmark, 0, 0}},
    {{SOL_SOCKET, so_passpidfd, AF_UNIX, 0}},
    {{SOL_SOCKET, so_rcvpriority, 0, 0}},
    {{SOL_SOCKET, so_passrights, AF_UNIX, 0}, 1},
    {{IPPROTO_IP, IP_RECVOPTS, AF_INET, 0}},
    {{IPPROTO_IP, IP_RETOPTS, AF_INET, 0}},
    {{IPPROTO_IP, IP_PKTINFO, AF_INET, SOCK_STREAM}},
    {{IPPROTO_IP, IP_RECVTTL, AF_INET, SOCK_STREAM}},
    {{IPPROTO_IP, IP_RECVTOS, AF_INET, SOCK_STREAM}},
    {{IPPROTO_IP, IP_PASSSEC, AF_INET, 0}},
    {{IPPROTO_IP, IP_TRANSPARENT, AF_INET, 0}},
    {{IPPROTO_IP, IP_RECVORIGDSTADDR, AF_INET, 0}},
    {{IPPROTO_IP, IP_MINTTL, AF_INET, 0}},
    {{IPPROTO_IP, IP_NODEFRAG, AF_INET, SOCK_RAW}},
    {{IPPROTO_IP, IP_CHECKSUM, AF_INET, 0}},
    {{IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, AF_INET, 0}},
    {{IPPROTO_IP, IP_RECVFRAGSIZE, AF_INET, SOCK_DGRAM}},
    {{IPPROTO_IP, ip_recverr_rfc4884, AF_INET, 0}},
    {{IPPROTO_IP, ip_local_port_range, AF_INET, 0}},
    {{IPPROTO_IPV6, IPV6_2292PKTINFO, AF_INET6, 0}},
    {{IPPROTO_IPV6, IPV6_2292HOPOPTS, AF_INET6, 0}},
    {{IPPROTO_IPV6, IPV6_2292DSTOPTS, AF_INET6, 0}},
    {{IPPROTO_IPV6, IPV6_2292RTHDR, AF_INET6, 0}},
    {{IPPROTO_IPV6, IPV6_2292HOPLIMIT, AF_INET6, 0}},
    {{IPPROTO_IPV6, ipv6_flowinfo, AF_INET6, 0}},
    {{IPPROTO_IPV6, IPV6_MTU_DISCOVER, AF_INET6, 0}, IPV6_PMTUDISC_WANT},
    {{IPPROTO_IPV6, ipv6_recverr_rfc4884, AF_INET6, 0}},
    {{IPPROTO_IPV6, ipv6_flowinfo_send, AF_INET6, 0}},
    {{IPPROTO_IPV6, IPV6_RECVPKTINFO, AF_INET6, SOCK_STREAM}},
    {{IPPROTO_IPV6, IPV6_RECVHOPLIMIT, AF_INET6, SOCK_STREAM}},
    {{IPPROTO_IPV6, IPV6_RECVTCLASS, AF_INET6, SOCK_STREAM}},
    {{IPPROTO_IPV6, IPV6_RECVHOPOPTS, AF_INET6, 0}},
    {{IPPROTO_IPV6, IPV6_RECVRTHDR, AF_INET6, 0}},
    {{IPPROTO_IPV6, IPV6_RECVDSTOPTS, AF_INET6, 0}},
    {{IPPROTO_IPV6, IPV6_RECVPATHMTU, AF_INET6, 0}},
    {{IPPROTO_IPV6, IPV6_DONTFRAG, AF_INET6, 0}},
    {{IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, AF_INET6, 0}, 1},
    {{IPPROTO_IPV6, IPV6_MINHOPCOUNT, AF_INET6, 0}},
    {{IPPROTO_IPV6, IPV6_RECVORIGDSTADDR, AF_INET6, 0}},
    {{IPPROTO_IPV6, IPV6_TRANSPARENT, AF_INET6, 0}},
    {{IPPROTO_IPV6, IPV6_RECVFRAGSIZE, AF_INET6, SOCK_DGRAM}},
    {{IPPROTO_IPV6, IPV6_FREEBIND, AF_INET6, 0}},
    {{IPPROTO_IPV6, ipv6_addr_preferences, AF_INET6, 0}, ipv6_usual_preferences},
    {{IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, AF_INET, SOCK_STREAM}},
    {{IPPROTO_TCP, TCP_FASTOPEN, AF_INET, SOCK_STREAM}}, // 0 but for sockets that may listen
    {{IPPROTO_TCP, TCP_SAVE_SYN, AF_INET, SOCK_STREAM}},
    {{IPPROTO_TCP, TCP_MAXSEG, AF_INET, SOCK_STREAM}, 536},
    {{IPPROTO_TCP, TCP_WINDOW_CLAMP, AF_INET, SOCK_STREAM}},       // without a connection
    {{IPPROTO_TCP, TCP_FASTOPEN_CONNECT, AF_INET, SOCK_STREAM}},   // likewise
    {{IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, AF_INET, SOCK_STREAM}}, // likewise
    {{IPPROTO_TCP, TCP_TX_DELAY, AF_INET, SOCK_STREAM}},
    {{SOL_PACKET, PACKET_FANOUT, AF_PACKET, 0}}, // once it is bound: share_packets()
    {{IPPROTO_UDP, udp_cork, AF_INET, SOCK_DGRAM}},
    {{IPPROTO_UDP, udp_no_check6_tx, AF_INET, SOCK_DGRAM}},
    {{IPPROTO_UDP, udp_no_check6_rx, AF_INET, SOCK_DGRAM}},
    {{IPPROTO_UDP, udp_segment, AF_INET, SOCK_DGRAM}},
    {{IPPROTO_UDP, udp_gro, AF_INET, SOCK_DGRAM}},
};

inline bool is_time(int level, int name)
{
    return level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO);
}

// The kernel tells its number in network order.
inline bool is_unicast_interface(int level, int name)
{
    return (level == IPPROTO_IP && name == IP_UNICAST_IF) ||
           (level == IPPROTO_IPV6 && name == IPV6_UNICAST_IF);
}

// The value is a hash of the interface's name, as another host may number interfaces otherwise.
inline bool is_interface(int level, int name)
{
    return (level == SOL_SOCKET && name == SO_BINDTODEVICE) ||
           (level == IPPROTO_IPV6 && name == IPV6_MULTICAST_IF) ||
           is_unicast_interface(level, name);
}

// How a connection is opened, which no connection can be told any more.
inline bool is_fast_open(int level, int name)
{
    return level == IPPROTO_TCP && (name == TCP_FASTOPEN_CONNECT || name == TCP_FASTOPEN_NO_COOKIE);
}

inline bool is_without_connection(int level, int name)
{
    return (level == IPPROTO_TCP && name == TCP_WINDOW_CLAMP) || is_fast_open(level, name);
}

// False: of a connection, for which the kernel chooses one, or which has no use for it.
inline bool read_without_connection(int fd, int name, uint64_t &value)
{
    tcp_info info = {};
    socklen_t size = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        (info.tcpi_state != TCP_CLOSE && info.tcpi_state != TCP_LISTEN))
        return false;
    int found = 0;
    size = sizeof(found);
    if (getsockopt(fd, IPPROTO_TCP, name, &found, &size) != 0)
        return false;
    value = static_cast<uint64_t>(found);
    return true;
}

// The numbers of these begin where the option is set (SOF_TIMESTAMPING_OPT_ID).
inline bool is_numbered(int fd, int level, int name, uint64_t value)
{
    int kind = 0;
    socklen_t size = sizeof(kind);
    return level == SOL_SOCKET && name == SO_TIMESTAMPING &&
           (value & SOF_TIMESTAMPING_OPT_ID) != 0 &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size) == 0 && kind == SOCK_STREAM;
}

// A structure of two ints.
inline bool is_double(int level, int name)
{
    return level == SOL_SOCKET && (name == SO_LINGER || name == SO_TXTIME);
}

inline bool is_peek_offset(int level, int name)
{
    return level == SOL_SOCKET && name == SO_PEEK_OFF;
}

inline bool is_segment_limit(int level, int name)
{
    return level == IPPROTO_TCP && name == TCP_MAXSEG;
}

// Without a connection, what the program has asked for, or 536 (before Linux 6.2 always). Of a
// connection: the size that this end has announced, which such a limit set at its start. False: it
// was larger than any limit.
inline bool read_segment_limit(int fd, uint64_t &value)
{
    constexpr int smallest = 88, largest = 32767; // what setsockopt(2) takes
    constexpr int of_timestamps = 12;             // not counted, where each segment has them
    tcp_info info = {};
    socklen_t size = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return false;
    int found = static_cast<int>(info.tcpi_advmss);
    if ((info.tcpi_options & TCPI_OPT_TIMESTAMPS) != 0)
        found += of_timestamps;
    size = sizeof(found);
    if ((info.tcpi_state == TCP_CLOSE || info.tcpi_state == TCP_LISTEN) &&
        getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &found, &size) != 0)
        return false;
    value = static_cast<uint64_t>(found);
    return found >= smallest && found <= largest;
}

// 0: no interface.
inline uint64_t interface_value(std::string_view interface)
{
    const auto *bytes = reinterpret_cast<const uint8_t *>(interface.data());
    return interface.empty() ? 0 : checksum64({bytes, interface.size()});
}

// The socket's choice by number or by name; false, too, if that interface is gone. The socket
// itself is asked for the name, as its network namespace may be another one than ours.
inline bool read_interface(int fd, int level, int name, uint64_t &value)
{
    ifreq chosen = {};
    const bool by_name = level == SOL_SOCKET;
    socklen_t size = by_name ? IF_NAMESIZE : sizeof(chosen.ifr_ifindex);
    void *const answer = by_name ? static_cast<void *>(chosen.ifr_name) : &chosen.ifr_ifindex;
    if (getsockopt(fd, level, name, answer, &size) != 0)
        return false;
    if (is_unicast_interface(level, name))
        chosen.ifr_ifindex = static_cast<int>(ntohl(static_cast<uint32_t>(chosen.ifr_ifindex)));
    if (chosen.ifr_ifindex != 0 && ioctl(fd, SIOCGIFNAME, &chosen) != 0)
        return false;
    value = interface_value(chosen.ifr_name);
    return true;
}

inline int choose_interface(int fd, int level, int option, uint64_t value)
{
    char name[IF_NAMESIZE] = "";
    if (struct if_nameindex *all = if_nameindex()) {
        for (const struct if_nameindex *one = all; one->if_index != 0; one++) {
            if (interface_value(one->if_name) == value)
                strncpy(name, one->if_name, sizeof(name) - 1);
        }
        if_freenameindex(all);
    }
    if (name[0] == 0 && value != 0)
        return ENODEV;
    if (level == SOL_SOCKET)
        return setsockopt(fd, level, option, name, sizeof(name)) == 0 ? 0 : errno;
    const unsigned index = value == 0 ? 0 : if_nametoindex(name);
    if (value != 0 && index == 0)
        return ENODEV; // it has gone since
    const uint32_t number = is_unicast_interface(level, option) ? htonl(index) : index;
    return setsockopt(fd, level, option, &number, sizeof(number)) == 0 ? 0 : errno;
}

// The kernel doubles the value that is set, and getsockopt returns the double.
inline bool is_doubled(int level, int name)
{
    return level == SOL_SOCKET && (name == SO_RCVBUF || name == SO_SNDBUF);
}

// For TCP, the kernel tunes the sizes of buffers as long as the program has not set one; setting
// one would end that.
inline bool is_chosen_by_kernel(int fd, int name, int domain, int kind)
{
    if (domain == AF_UNIX || kind != SOCK_STREAM || (name != SO_RCVBUF && name != SO_SNDBUF))
        return false;
    int locked = 0;
    socklen_t size = sizeof(locked);
    const int mine = name == SO_SNDBUF ? 1 : 2; // SOCK_SNDBUF_LOCK, SOCK_RCVBUF_LOCK
    return getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &locked, &size) == 0 && (locked & mine) == 0;
}

// False: a socket of this kind has no such option. A structure of two ints is stored as one value.
inline bool read_socket_option(int fd, int level, int name, uint64_t &value)
{
    if (is_time(level, name)) {
        timeval time = {};
        socklen_t size = sizeof(time);
        if (getsockopt(fd, level, name, &time, &size) != 0)
            return false;
        value =
            static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_usec);
        return true;
    }
    if (is_interface(level, name))
        return read_interface(fd, level, name, value);
    if (is_segment_limit(level, name))
        return read_segment_limit(fd, value);
    if (is_without_connection(level, name))
        return read_without_connection(fd, name, value);
    uint64_t got = 0;
    socklen_t size = is_double(level, name) ? 8 : 4;
    if (getsockopt(fd, level, name, &got, &size) != 0 || is_numbered(fd, level, name, got))
        return false;
    const bool none = is_peek_offset(level, name) && static_cast<int32_t>(got) < 0;
    value = none ? no_peek_offset : got;
    return true;
}

inline int set_socket_option(int fd, int level, int name, uint64_t value)
{
    if (is_interface(level, name))
        return choose_interface(fd, level, name, value);
    int result;
    if (is_time(level, name)) {
        const timeval time = {static_cast<time_t>(value / 1'000'000),
                              static_cast<suseconds_t>(value % 1'000'000)};
        result = setsockopt(fd, level, name, &time, sizeof(time));
    } else {
        if (is_doubled(level, name))
            value /= 2;
        result = setsockopt(fd, level, name, &value, is_double(level, name) ? 8 : 4);
    }
    return result == 0 ? 0 : errno;
}

inline bool has_option(const SocketOption &option, int domain, int kind)
{
    const bool of_domain = option.domain == 0 || option.domain == domain ||
                           (option.domain == AF_INET && domain == AF_INET6);
    return of_domain && (option.kind == 0 || option.kind == kind ||
                         (option.kind == SOCK_DGRAM && kind == SOCK_RAW));
}

inline std::vector<uint64_t> read_socket_options(int fd, int domain, int kind)
{
    std::vector<uint64_t> all;
    const auto add = [&](const SocketOption &option, uint64_t value) {
        all.insert(all.end(), {static_cast<uint64_t>(option.level),
                               static_cast<uint64_t>(option.name), value});
    };
    uint64_t value = 0;
    for (const SocketOption &option : socket_options) {
        if (has_option(option, domain, kind) &&
            !(option.level == SOL_SOCKET && is_chosen_by_kernel(fd, option.name, domain, kind)) &&
            read_socket_option(fd, option.level, option.name, value))
            add(option, value);
    }
    for (const auto &[option, usual] : rare_options) {
        if (has_option(option, domain, kind) &&
            read_socket_option(fd, option.level, option.name, value) && value != usual)
            add(option, value);
    }
    return all;
}

} // namespace cryo::image
