// SPDX-License-Identifier: Apache-2.0
#include "restore/tcp_calls.hpp"

#include "base/print.hpp"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <thread>

namespace cryo::restore {

namespace {

using Address = resources::TcpAddress;
using Clock = std::chrono::steady_clock;

constexpr int local_port_range = 51; // IP_LOCAL_PORT_RANGE, since Linux 6.3
// The kernel keeps the addresses of an ended connection for a minute (TIME_WAIT).
constexpr auto lingering = std::chrono::seconds(65);

Error taken(const Address &address, int why)
{
    return Error(why, fmt::format("giving a connection its address {}: {}{}", address.text(),
                                  strerror(why),
                                  why == EADDRINUSE || why == EADDRNOTAVAIL
                                      ? "; another program uses it, or it is not an address of "
                                        "this machine: restart when it is free"
                                      : ""));
}

// Whether the system gives this port to connecting sockets (ephemeral ports).
bool is_for_callers(uint16_t port)
{
    std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
    uint32_t low = 0, high = 0;
    return bool(file >> low >> high) && port >= low && port <= high;
}

} // namespace

void set_number(int fd, int level, int name, uint32_t value)
{
    setsockopt(fd, level, name, &value, sizeof(value));
}

uint32_t number(int fd, int level, int name)
{
    uint32_t value = 0;
    socklen_t size = sizeof(value);
    return getsockopt(fd, level, name, &value, &size) == 0 ? value : 0;
}

uint32_t segment_limit(const image::Socket &saved)
{
    for (size_t i = 0; i + 2 < saved.options.size(); i += 3) {
        if (saved.options[i] == IPPROTO_TCP && saved.options[i + 1] == TCP_MAXSEG)
            return static_cast<uint32_t>(saved.options[i + 2]);
    }
    return 0;
}

Fd tcp_socket(uint32_t domain)
{
    Fd fd(
        socket(static_cast<int>(domain), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    if (domain == AF_INET6) // its addresses may be IPv4 ones, and the system's default V6ONLY
        set_number(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    return fd;
}

Result<Fd> when_free(const Address &address, const std::function<Fd()> &attempt)
{
    const Clock::time_point begun = Clock::now(), end = begun + lingering;
    for (bool said = false;;) {
        Fd made = attempt();
        if (made)
            return made;
        const int why = errno;
        if ((why != EADDRINUSE && why != EADDRNOTAVAIL) || Clock::now() > end ||
            !resources::port_lingers(address.port()))
            return taken(address, why);
        if (!said && Clock::now() - begun > std::chrono::seconds(2)) {
            print(stderr,
                  "cr_restart: waiting until the address {} is free: the system keeps it for "
                  "an ended connection, for up to a minute (TIME_WAIT)\n",
                  address.text());
            said = true;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

// First as the kernel itself assigns a port to a connecting socket, here from a range of
// one: other connections of the port, even ended ones, are no obstacle then. Before Linux
// 6.3, and for a port outside the system's range, the port is bound as by any server.
Fd begin_call(const image::Socket &caller)
{
    const Address from(caller.local), to(caller.peer);
    const auto make = [&caller] {
        Fd made = tcp_socket(caller.domain);
        set_number(made.get(), IPPROTO_TCP, TCP_MAXSEG, segment_limit(caller));
        return made;
    };
    Fd fd = make();
    if (!fd)
        return fd;
    const uint32_t port = from.port(), range = port << 16 | port;
    if (is_for_callers(from.port()) &&
        setsockopt(fd.get(), IPPROTO_IP, local_port_range, &range, sizeof(range)) == 0) {
        set_number(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
        const Address host = from.without_port();
        if (bind(fd.get(), host.get(), host.size()) == 0 &&
            (connect(fd.get(), to.get(), to.size()) == 0 || errno == EINPROGRESS) &&
            Address::of_own(fd.get()).same(from)) {
            set_number(fd.get(), IPPROTO_IP, local_port_range, 0);
            set_number(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 0);
            return fd;
        }
        fd = make();
    }
    set_number(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(fd.get(), from.get(), from.size()) != 0 ||
        (connect(fd.get(), to.get(), to.size()) != 0 && errno != EINPROGRESS)) {
        const int why = errno;
        fd.reset();
        errno = why;
    }
    return fd;
}

} // namespace cryo::restore
