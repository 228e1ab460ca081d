// SPDX-License-Identifier: Apache-2.0
// Options of sockets that hardly a program sets: of TCP, also listening, UDP and UNIX sockets.
#include "probe.h"

#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

// The loopback interface has the number 1, here in network order.
enum { LISTENS = 1 << 16, FIRST_INTERFACE = 1 << 24 };

static const struct option {
    const char *text;
    int domain, kind, level, name, value;
} options[] = {
    {"SO_DONTROUTE of TCP", AF_INET, SOCK_STREAM, SOL_SOCKET, SO_DONTROUTE, 1},
    {"SO_MAX_PACING_RATE of TCP", AF_INET, SOCK_STREAM, SOL_SOCKET, SO_MAX_PACING_RATE, 123456},
    {"IP_MINTTL of TCP", AF_INET, SOCK_STREAM, IPPROTO_IP, IP_MINTTL, 3},
    {"IP_PKTINFO of TCP", AF_INET, SOCK_STREAM, IPPROTO_IP, IP_PKTINFO, 1},
    {"IP_BIND_ADDRESS_NO_PORT", AF_INET, SOCK_STREAM, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1},
    {"TCP_FASTOPEN", AF_INET, SOCK_STREAM | LISTENS, IPPROTO_TCP, TCP_FASTOPEN, 5},
    {"TCP_SAVE_SYN", AF_INET, SOCK_STREAM | LISTENS, IPPROTO_TCP, TCP_SAVE_SYN, 1},
    {"IPV6_MTU_DISCOVER", AF_INET6, SOCK_STREAM, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO},
    {"IPV6_RECVTCLASS of TCP", AF_INET6, SOCK_STREAM, IPPROTO_IPV6, IPV6_RECVTCLASS, 1},
    {"IPV6_AUTOFLOWLABEL", AF_INET6, SOCK_STREAM, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0},
    {"SO_NO_CHECK of UDP", AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_NO_CHECK, 1},
    {"SO_RXQ_OVFL of UDP", AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_RXQ_OVFL, 1},
    {"SO_SELECT_ERR_QUEUE", AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_SELECT_ERR_QUEUE, 1},
    {"IP_RECVOPTS of UDP", AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_RECVOPTS, 1},
    {"IP_RECVORIGDSTADDR of UDP", AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_RECVORIGDSTADDR, 1},
    {"UDP_CORK", AF_INET, SOCK_DGRAM, IPPROTO_UDP, 1, 1},
    {"UDP_SEGMENT", AF_INET, SOCK_DGRAM, IPPROTO_UDP, 103, 1000},
    {"UDP_GRO", AF_INET, SOCK_DGRAM, IPPROTO_UDP, 104, 1},
    {"IPV6_RECVPATHMTU of UDP", AF_INET6, SOCK_DGRAM, IPPROTO_IPV6, IPV6_RECVPATHMTU, 1},
    {"IPV6_DONTFRAG of UDP", AF_INET6, SOCK_DGRAM, IPPROTO_IPV6, IPV6_DONTFRAG, 1},
    {"UDP_NO_CHECK6_TX", AF_INET6, SOCK_DGRAM, IPPROTO_UDP, 101, 1},
    {"SO_ZEROCOPY of TCP", AF_INET, SOCK_STREAM, SOL_SOCKET, SO_ZEROCOPY, 1},
    {"SO_ZEROCOPY of UDP", AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_ZEROCOPY, 1},
    {"SO_PEEK_OFF of UDP", AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_PEEK_OFF, 7},
    {"SO_PEEK_OFF of a UNIX socket", AF_UNIX, SOCK_STREAM, SOL_SOCKET, SO_PEEK_OFF, 0},
    {"TCP_WINDOW_CLAMP", AF_INET, SOCK_STREAM, IPPROTO_TCP, TCP_WINDOW_CLAMP, 5000},
    {"TCP_WINDOW_CLAMP, listening", AF_INET, SOCK_STREAM | LISTENS, IPPROTO_TCP, TCP_WINDOW_CLAMP,
     6000},
    {"IPV6_ADDR_PREFERENCES", AF_INET6, SOCK_DGRAM, IPPROTO_IPV6, 72, 0x402},
    {"SO_PASSSEC of a UNIX socket", AF_UNIX, SOCK_DGRAM, SOL_SOCKET, SO_PASSSEC, 1},
    {"TCP_TX_DELAY", AF_INET, SOCK_STREAM, IPPROTO_TCP, TCP_TX_DELAY, 1000},
    {"TCP_FASTOPEN_CONNECT", AF_INET, SOCK_STREAM, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1},
    {"TCP_FASTOPEN_NO_COOKIE", AF_INET, SOCK_STREAM | LISTENS, IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE,
     1},
    {"SO_TIMESTAMPING of TCP", AF_INET, SOCK_STREAM, SOL_SOCKET, SO_TIMESTAMPING, 0x18},
    {"SO_TIMESTAMPING of a listener", AF_INET6, SOCK_STREAM | LISTENS, SOL_SOCKET, SO_TIMESTAMPING,
     0x18},
    {"IP_UNICAST_IF", AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_UNICAST_IF, FIRST_INTERFACE},
    {"IPV6_UNICAST_IF", AF_INET6, SOCK_DGRAM, IPPROTO_IPV6, IPV6_UNICAST_IF, FIRST_INTERFACE},
    {"SO_DONTROUTE of a UNIX socket", AF_UNIX, SOCK_STREAM, SOL_SOCKET, SO_DONTROUTE, 1},
};
enum { COUNT = sizeof(options) / sizeof(*options) };

static int sockets[COUNT];
static const int service = 0x10, priority = 3;

static int value_of(int fd, int level, int name)
{
    int value = -1;
    socklen_t size = sizeof(value);
    PROBE_TRY(getsockopt(fd, level, name, &value, &size));
    return value;
}

// The type of service sets a priority as well, but the program wants another one.
static int with_priority(void)
{
    const int fd = PROBE_TRY(socket(AF_INET, SOCK_DGRAM, 0));
    PROBE_TRY(setsockopt(fd, IPPROTO_IP, IP_TOS, &service, sizeof(service)));
    PROBE_TRY(setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)));
    return fd;
}

// When packets are to be sent, by a clock that every user may choose; a structure of two numbers.
static const struct sock_txtime sending = {.clockid = CLOCK_MONOTONIC,
                                           .flags = SOF_TXTIME_REPORT_ERRORS};

static int with_times(void)
{
    const int fd = (int)PROBE_TRY(socket(AF_INET, SOCK_DGRAM, 0));
    PROBE_TRY(setsockopt(fd, SOL_SOCKET, SO_TXTIME, &sending, sizeof sending));
    return fd;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    for (int i = 0; i < COUNT; i++) {
        const struct option *one = &options[i];
        sockets[i] = PROBE_TRY(socket(one->domain, one->kind & ~LISTENS, 0));
        if (setsockopt(sockets[i], one->level, one->name, &one->value, sizeof(int)) != 0) {
            close(sockets[i]); // this kernel does not have it
            sockets[i] = -1;
        } else if ((one->kind & LISTENS) != 0) {
            PROBE_TRY(listen(sockets[i], 1));
        }
    }
    const int urgent = with_priority(), timed = with_times();
    do {
        probe_ready();
        PROBE_SABOTAGE("SO_TXTIME", dup2(PROBE_TRY(socket(AF_INET, SOCK_DGRAM, 0)), timed));
        PROBE_SABOTAGE("IP_MINTTL", setsockopt(sockets[2], IPPROTO_IP, IP_MINTTL, &(int){0}, 4));
        for (int i = 0; i < COUNT; i++) {
            if (sockets[i] >= 0) {
                probe_equal(options[i].text, options[i].value,
                            value_of(sockets[i], options[i].level, options[i].name));
            }
        }
        probe_equal("IP_TOS", service, value_of(urgent, IPPROTO_IP, IP_TOS));
        struct sock_txtime times = {0};
        socklen_t size = sizeof times;
        PROBE_TRY(getsockopt(timed, SOL_SOCKET, SO_TXTIME, &times, &size));
        probe_equal("clock of SO_TXTIME", sending.clockid, times.clockid);
        probe_equal("flags of SO_TXTIME", sending.flags, times.flags);
        probe_equal("SO_PRIORITY", priority, value_of(urgent, SOL_SOCKET, SO_PRIORITY));
    } while (probe_more());
    return probe_pass();
}
