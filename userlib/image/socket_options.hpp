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
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <vector>

namespace cryo::image {

struct SocketOption {
    int level, name;
    int domain; // only of these; AF_INET: AF_INET6 as well
    int kind;
};

inline constexpr SocketOption socket_options[] = {
    {SOL_SOCKET, SO_REUSEADDR, 0, 0},
    {SOL_SOCKET, SO_REUSEPORT, 0, 0},
    {SOL_SOCKET, SO_KEEPALIVE, 0, 0},
    {SOL_SOCKET, SO_BROADCAST, 0, 0},
    {SOL_SOCKET, SO_OOBINLINE, 0, 0},
    {SOL_SOCKET, SO_PASSCRED, AF_UNIX, 0},
    {SOL_SOCKET, SO_RCVBUF, 0, 0},
    {SOL_SOCKET, SO_SNDBUF, 0, 0},
    {SOL_SOCKET, SO_RCVLOWAT, 0, 0},
    {SOL_SOCKET, SO_PRIORITY, 0, 0},
    {SOL_SOCKET, SO_TIMESTAMP, 0, 0},
    {SOL_SOCKET, SO_LINGER, 0, 0},
    {SOL_SOCKET, SO_RCVTIMEO, 0, 0},
    {SOL_SOCKET, SO_SNDTIMEO, 0, 0},
    {IPPROTO_IP, IP_TOS, AF_INET, 0},
    {IPPROTO_IP, IP_TTL, AF_INET, 0},
    {IPPROTO_IP, IP_PKTINFO, AF_INET, SOCK_DGRAM},
    {IPPROTO_IP, IP_FREEBIND, AF_INET, 0},
    {IPPROTO_IP, IP_MULTICAST_TTL, AF_INET, SOCK_DGRAM},
    {IPPROTO_IP, IP_MULTICAST_LOOP, AF_INET, SOCK_DGRAM},
    {IPPROTO_IPV6, IPV6_V6ONLY, AF_INET6, 0},
    {IPPROTO_IPV6, IPV6_RECVPKTINFO, AF_INET6, SOCK_DGRAM},
    {IPPROTO_TCP, TCP_NODELAY, AF_INET, SOCK_STREAM},
    {IPPROTO_TCP, TCP_KEEPIDLE, AF_INET, SOCK_STREAM},
    {IPPROTO_TCP, TCP_KEEPINTVL, AF_INET, SOCK_STREAM},
    {IPPROTO_TCP, TCP_KEEPCNT, AF_INET, SOCK_STREAM},
    {IPPROTO_TCP, TCP_DEFER_ACCEPT, AF_INET, SOCK_STREAM},
};

inline bool is_time(int level, int name)
{
    return level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO);
}

// The kernel doubles what it is told, and tells the double.
inline bool is_doubled(int level, int name)
{
    return level == SOL_SOCKET && (name == SO_RCVBUF || name == SO_SNDBUF);
}

// False: a socket of this kind has no such option. Two halves of a structure make one value.
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
    uint64_t got = 0;
    socklen_t size = level == SOL_SOCKET && name == SO_LINGER ? 8 : 4;
    if (getsockopt(fd, level, name, &got, &size) != 0)
        return false;
    value = got;
    return true;
}

inline int set_socket_option(int fd, int level, int name, uint64_t value)
{
    int result;
    if (is_time(level, name)) {
        const timeval time = {static_cast<time_t>(value / 1'000'000),
                              static_cast<suseconds_t>(value % 1'000'000)};
        result = setsockopt(fd, level, name, &time, sizeof(time));
    } else {
        if (is_doubled(level, name))
            value /= 2;
        result =
            setsockopt(fd, level, name, &value, level == SOL_SOCKET && name == SO_LINGER ? 8 : 4);
    }
    return result == 0 ? 0 : errno;
}

inline std::vector<uint64_t> read_socket_options(int fd, int domain, int kind)
{
    std::vector<uint64_t> all;
    for (const SocketOption &option : socket_options) {
        uint64_t value = 0;
        const bool of_domain = option.domain == 0 || option.domain == domain ||
                               (option.domain == AF_INET && domain == AF_INET6);
        if (!of_domain || (option.kind != 0 && option.kind != kind) ||
            !read_socket_option(fd, option.level, option.name, value))
            continue;
        all.insert(all.end(), {static_cast<uint64_t>(option.level),
                               static_cast<uint64_t>(option.name), value});
    }
    return all;
}

} // namespace cryo::image
