// SPDX-License-Identifier: Apache-2.0
// Groups of multicasts that sockets have joined, all or some sources in them, and the interface to
// send to groups. Everything stays on the loopback interface.
#include "probe.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct sockaddr_storage room;
};

static unsigned loopback;

static union address four(unsigned address)
{
    return (union address){.four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)}};
}

// Groups that no other run of this program joins.
static union address group(unsigned number)
{
    return four(0xef000000U | number << 16 | ((unsigned)getpid() & 0xffff));
}

static union address six(unsigned char first, unsigned char last)
{
    union address address = {.six = {.sin6_family = AF_INET6}};
    address.six.sin6_addr.s6_addr[0] = first;
    address.six.sin6_addr.s6_addr[1] = first == 0xff ? 5 : 0;
    address.six.sin6_addr.s6_addr[15] = last;
    return address;
}

static int level_of(union address address)
{
    return address.any.sa_family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
}

static int get(int fd, int level, int option)
{
    int value = -1;
    socklen_t size = sizeof value;
    PROBE_TRY(getsockopt(fd, level, option, &value, &size));
    return value;
}

static void set(int fd, int level, int option, int value)
{
    PROBE_TRY(setsockopt(fd, level, option, &value, sizeof value));
}

static void of_group(int fd, int option, union address group)
{
    const struct group_req request = {.gr_interface = loopback, .gr_group = group.room};
    PROBE_TRY(setsockopt(fd, level_of(group), option, &request, sizeof request));
}

static void of_source(int fd, int option, union address group, union address source)
{
    const struct group_source_req request = {
        .gsr_interface = loopback, .gsr_group = group.room, .gsr_source = source.room};
    PROBE_TRY(setsockopt(fd, level_of(group), option, &request, sizeof request));
}

// What the kernel tells of a membership, which has no more than two sources.
static void expect(const char *what, int fd, union address group, unsigned mode, unsigned sources)
{
    union {
        struct group_filter filter;
        char room[GROUP_FILTER_SIZE(2)];
    } told = {.filter = {.gf_interface = loopback, .gf_group = group.room, .gf_numsrc = 2}};
    socklen_t size = sizeof told;
    probe_equal(what, 0, getsockopt(fd, level_of(group), MCAST_MSFILTER, &told, &size));
    probe_equal(what, mode, told.filter.gf_fmode);
    probe_equal(what, sources, told.filter.gf_numsrc);
}

static int bound(union address address)
{
    const int fd = (int)PROBE_TRY(socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    PROBE_TRY(bind(fd, &address.any,
                   address.any.sa_family == AF_INET ? sizeof address.four : sizeof address.six));
    return fd;
}

// A sender to groups on the loopback interface.
static int sender(unsigned address)
{
    const int fd = bound(four(address));
    const struct in_addr interface = {htonl(INADDR_LOOPBACK)};
    PROBE_TRY(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface));
    return fd;
}

static void send_one(int from, union address group, in_port_t port, char what)
{
    group.four.sin_port = port;
    PROBE_TRY(sendto(from, &what, 1, 0, &group.any, sizeof group.four));
}

static void receive(const char *what, int fd, char expected)
{
    char got[2] = "";
    probe_equal(what, 1, PROBE_TRY(recv(fd, got, sizeof got, 0)));
    probe_equal(what, expected, got[0]);
}

static in_port_t port_of(int fd)
{
    union address name;
    socklen_t size = sizeof name;
    PROBE_TRY(getsockname(fd, &name.any, &size));
    return name.any.sa_family == AF_INET ? name.four.sin_port : name.six.sin6_port;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    loopback = if_nametoindex("lo");
    const union address all = group(1), chosen = group(2), blocked = group(3), other = group(4);
    const union address of_six = six(0xff, 0x77), silent = six(0xff, 0x78);
    const int near = sender(0x7f000001), far = sender(0x7f000002);
    const int fd = bound(four(INADDR_ANY));
    const in_port_t port = port_of(fd);
    set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    of_group(fd, MCAST_JOIN_GROUP, all);
    of_source(fd, MCAST_JOIN_SOURCE_GROUP, chosen, four(0x7f000001));
    of_group(fd, MCAST_JOIN_GROUP, blocked);
    of_source(fd, MCAST_BLOCK_SOURCE, blocked, four(0x7f000002));
    // One of IPv6 may be in groups of both; no route leads to those of IPv6 on this interface.
    const int trial = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int both = trial < 0 ? -1 : bound(six(0, 0));
    if (both >= 0) {
        close(trial);
        set(both, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)loopback);
        of_group(both, MCAST_JOIN_GROUP, other);
        of_source(both, MCAST_JOIN_SOURCE_GROUP, of_six, six(0, 1));
        of_source(both, MCAST_JOIN_SOURCE_GROUP, of_six, six(0, 2));
        // A member that hears nobody: leaving a source that is not there fails, but not before
        // that.
        of_group(both, MCAST_JOIN_GROUP, silent);
        const struct group_source_req none = {
            .gsr_interface = loopback, .gsr_group = silent.room, .gsr_source = six(0, 1).room};
        setsockopt(both, IPPROTO_IPV6, MCAST_LEAVE_SOURCE_GROUP, &none, sizeof none);
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("group", of_group(fd, MCAST_LEAVE_GROUP, all));
        PROBE_SABOTAGE("source", {
            of_group(fd, MCAST_LEAVE_GROUP, chosen);
            of_group(fd, MCAST_JOIN_GROUP, chosen);
        });
        PROBE_SABOTAGE("blocked", of_source(fd, MCAST_UNBLOCK_SOURCE, blocked, four(0x7f000002)));
        PROBE_SABOTAGE("others", set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 1));
        PROBE_SABOTAGE("interface", set(far, IPPROTO_IP, IP_MULTICAST_IF, 0));
        expect("a group, of all sources", fd, all, MCAST_EXCLUDE, 0);
        expect("a group, of one source", fd, chosen, MCAST_INCLUDE, 1);
        expect("a group with a blocked source", fd, blocked, MCAST_EXCLUDE, 1);
        probe_equal("groups that others have joined", 0, get(fd, IPPROTO_IP, IP_MULTICAST_ALL));
        for (int i = 0; i < 2; i++)
            probe_equal("interface to send to groups", (int)htonl(INADDR_LOOPBACK),
                        get(i == 0 ? near : far, IPPROTO_IP, IP_MULTICAST_IF));
        // What comes too much is in front of what is expected.
        send_one(far, chosen, port, 'x');
        send_one(near, chosen, port, 'c');
        receive("from the chosen source", fd, 'c');
        send_one(far, blocked, port, 'x');
        send_one(near, blocked, port, 'b');
        receive("from all but the blocked source", fd, 'b');
        send_one(far, all, port, 'a');
        receive("from all sources of a group", fd, 'a');
        if (both < 0)
            continue;
        expect("a group of IPv4 of a socket of IPv6", both, other, MCAST_EXCLUDE, 0);
        expect("a group of IPv6, of two sources", both, of_six, MCAST_INCLUDE, 2);
        expect("a group that is not listened to", both, silent, MCAST_INCLUDE, 0);
        probe_equal("interface to send to groups of IPv6", loopback,
                    get(both, IPPROTO_IPV6, IPV6_MULTICAST_IF));
        send_one(near, other, port_of(both), 'o');
        receive("in a group of IPv4, at a socket of IPv6", both, 'o');
    } while (probe_more());
    return probe_pass();
}
