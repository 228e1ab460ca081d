// SPDX-License-Identifier: Apache-2.0
// Raw IP sockets: one that is bound and connected, filters of the types of ICMP and ICMPv6, headers
// of one's own, a group of multicasts, one of IGMP.
#include "probe.h"

#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <sys/socket.h>

enum { protocol = 253, type_filter = 1 }; // for experiments; ICMP_FILTER

static int make(int of)
{
    return (int)PROBE_TRY(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, of));
}

static struct sockaddr_in at(unsigned address)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
}

static unsigned get(int fd, int level, int option)
{
    unsigned value = 0;
    socklen_t size = sizeof value;
    PROBE_TRY(getsockopt(fd, level, option, &value, &size));
    return value;
}

// Gets one type only; −1: the machine has no IPv6.
static int icmp_6(void)
{
    const int fd = socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6);
    struct icmp6_filter types;
    ICMP6_FILTER_SETBLOCKALL(&types);
    ICMP6_FILTER_SETPASS(250, &types); // a type that nobody sends
    if (fd < 0)
        return fd;
    PROBE_TRY(setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &types, sizeof types));
    while (recv(fd, &(char){0}, 1, MSG_DONTWAIT) >= 0)
        continue; // what came before
    return fd;
}

static void check_types_of_6(int fd)
{
    struct icmp6_filter types;
    socklen_t size = sizeof types;
    memset(&types, 0, sizeof types);
    PROBE_TRY(getsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &types, &size));
    probe_true("types of ICMPv6: one passes", ICMP6_FILTER_WILLPASS(250, &types));
    probe_true("types of ICMPv6: no other", ICMP6_FILTER_WILLBLOCK(128, &types));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    // Addresses to which nobody else sends anything, another run of this program neither.
    const struct sockaddr_in name = at(0x7f800000U | (unsigned)getpid());
    const struct sockaddr_in away = at(0x7fc00000U | (unsigned)getpid());
    const int one = make(protocol), icmp = make(IPPROTO_ICMP), whole = make(protocol);
    PROBE_TRY(bind(one, (const struct sockaddr *)&name, sizeof name));
    PROBE_TRY(connect(one, (const struct sockaddr *)&name, sizeof name));
    PROBE_TRY(bind(icmp, (const struct sockaddr *)&name, sizeof name));
    PROBE_TRY(bind(whole, (const struct sockaddr *)&away, sizeof away));
    PROBE_TRY(setsockopt(icmp, SOL_RAW, type_filter, &(unsigned){0x102}, sizeof(unsigned)));
    PROBE_TRY(setsockopt(whole, IPPROTO_IP, IP_HDRINCL, &(int){1}, sizeof(int)));
    PROBE_TRY(setsockopt(one, IPPROTO_IP, IP_TOS, &(int){0x10}, sizeof(int)));
    const int six = icmp_6(), igmp = make(IPPROTO_IGMP);
    PROBE_TRY(bind(igmp, (const struct sockaddr *)&away, sizeof away));
    const int member = make(protocol);
    const struct sockaddr_in group = at(0xeffe0000U | ((unsigned)getpid() & 0xffff));
    const struct ip_mreqn joined = {.imr_multiaddr = group.sin_addr,
                                    .imr_ifindex = (int)if_nametoindex("lo")};
    PROBE_TRY(bind(member, (const struct sockaddr *)&group, sizeof group));
    PROBE_TRY(setsockopt(member, IPPROTO_IP, IP_ADD_MEMBERSHIP, &joined, sizeof joined));
    do {
        probe_ready();
        PROBE_SABOTAGE("peer", {
            dup2(make(protocol), one);
            PROBE_TRY(bind(one, (const struct sockaddr *)&name, sizeof name));
        });
        PROBE_SABOTAGE("types", dup2(make(IPPROTO_ICMP), icmp));
        if (six >= 0)
            check_types_of_6(six);
        PROBE_SABOTAGE("headers", dup2(make(protocol), whole));
        PROBE_SABOTAGE("group", PROBE_TRY(setsockopt(member, IPPROTO_IP, IP_DROP_MEMBERSHIP,
                                                     &joined, sizeof joined)));
        struct sockaddr_in now = {0};
        socklen_t size = sizeof now;
        PROBE_TRY(getsockname(one, (struct sockaddr *)&now, &size));
        probe_equal("its address", name.sin_addr.s_addr, now.sin_addr.s_addr);
        unsigned char got[64];
        probe_equal("bytes to the peer", 5, send(one, "hello", 5, 0));
        probe_equal("bytes from it", 25, recv(one, got, sizeof got, 0));
        probe_equal("type of service", 0x10, got[1]);
        probe_equal("protocol", protocol, got[9]);
        probe_equal_bytes("what came", "hello", got + 20, 5);
        probe_equal("types that are left out", 0x102, get(icmp, SOL_RAW, type_filter));
        probe_equal("protocol of IGMP", IPPROTO_IGMP, get(igmp, SOL_SOCKET, SO_PROTOCOL));
        probe_equal("headers of its own", 1, get(whole, IPPROTO_IP, IP_HDRINCL));
        struct group_filter asked = {.gf_interface = (unsigned)joined.imr_ifindex};
        memcpy(&asked.gf_group, &group, sizeof group);
        size = sizeof asked;
        probe_equal("the group that it has joined", 0,
                    getsockopt(member, IPPROTO_IP, MCAST_MSFILTER, &asked, &size));
    } while (probe_more());
    return probe_pass();
}
