// SPDX-License-Identifier: Apache-2.0
// Netlink sockets: port ids, groups (more than an address has), options, and one that is connected
// to another. A request is answered under the old port id.
#include "probe.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

enum { quiet = RTNLGRP_NOP2, high = 33 }; // groups in which nothing is said here

static int make(int protocol)
{
    return (int)PROBE_TRY(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
}

static void set(int fd, int option, int value)
{
    PROBE_TRY(setsockopt(fd, SOL_NETLINK, option, &value, sizeof value));
}

static int get(int fd, int option)
{
    int value = -1;
    socklen_t size = sizeof value;
    PROBE_TRY(getsockopt(fd, SOL_NETLINK, option, &value, &size));
    return value;
}

static unsigned port_of(int fd)
{
    struct sockaddr_nl name;
    socklen_t size = sizeof name;
    PROBE_TRY(getsockname(fd, (struct sockaddr *)&name, &size));
    return name.nl_pid;
}

static unsigned long long groups_of(int fd)
{
    unsigned groups[64] = {0};
    socklen_t size = sizeof groups;
    PROBE_TRY(getsockopt(fd, SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, groups, &size));
    return groups[0] | (unsigned long long)groups[1] << 32;
}

// Asks for the loopback interface; the port id that the answer is for.
static unsigned answered_port(int route)
{
    struct {
        struct nlmsghdr head;
        struct ifinfomsg body;
    } question = {{sizeof question, RTM_GETLINK, NLM_F_REQUEST, probe_cycle(), 0},
                  {.ifi_family = AF_UNSPEC, .ifi_index = (int)if_nametoindex("lo")}};
    static union {
        struct nlmsghdr head;
        char bytes[16384];
    } answer;
    PROBE_TRY(send(route, &question, sizeof question, 0));
    PROBE_TRY(recv(route, &answer, sizeof answer, 0));
    probe_equal("kind of the answer", RTM_NEWLINK, answer.head.nlmsg_type);
    return answer.head.nlmsg_pid;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int route = make(NETLINK_ROUTE);
    struct sockaddr_nl name = {.nl_family = AF_NETLINK, .nl_groups = 1U << (quiet - 1)};
    PROBE_TRY(bind(route, (struct sockaddr *)&name, sizeof name));
    set(route, NETLINK_ADD_MEMBERSHIP, high);
    set(route, NETLINK_EXT_ACK, 1);
    set(route, NETLINK_NO_ENOBUFS, 1);
    PROBE_TRY(setsockopt(route, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)));
    const unsigned port = port_of(route);

    const int unbound = make(NETLINK_ROUTE);
    set(unbound, NETLINK_ADD_MEMBERSHIP, quiet);

    const int chosen = make(NETLINK_USERSOCK);
    name =
        (struct sockaddr_nl){.nl_family = AF_NETLINK, .nl_pid = 0x40000000U | (unsigned)getpid()};
    const unsigned number = name.nl_pid;
    PROBE_TRY(bind(chosen, (struct sockaddr *)&name, sizeof name));
    const int sender = make(NETLINK_USERSOCK);
    PROBE_TRY(connect(sender, (struct sockaddr *)&name, sizeof name));
    const unsigned from = port_of(sender);
    do {
        probe_ready();
        PROBE_SABOTAGE("port", dup2(make(NETLINK_ROUTE), route));
        PROBE_SABOTAGE("groups", set(route, NETLINK_DROP_MEMBERSHIP, high));
        PROBE_SABOTAGE("extended", set(route, NETLINK_EXT_ACK, 0));
        PROBE_SABOTAGE("unbound", set(unbound, NETLINK_DROP_MEMBERSHIP, quiet));
        PROBE_SABOTAGE("peer", dup2(make(NETLINK_USERSOCK), sender));
        probe_equal("port of the first", port, port_of(route));
        const unsigned long long both = 1ULL << (quiet - 1) | 1ULL << (high - 1);
        probe_equal("groups of the first", (long long)both, (long long)groups_of(route));
        probe_equal("extended answers", 1, get(route, NETLINK_EXT_ACK));
        probe_equal("no word of what was lost", 1, get(route, NETLINK_NO_ENOBUFS));
        int credentials = 0;
        socklen_t size = sizeof credentials;
        PROBE_TRY(getsockopt(route, SOL_SOCKET, SO_PASSCRED, &credentials, &size));
        probe_equal("credentials", 1, credentials);
        probe_equal("port of the answer", port, answered_port(route));
        probe_equal("name of the unbound one", 0, port_of(unbound));
        probe_equal("groups of the unbound one", 1LL << (quiet - 1), (long long)groups_of(unbound));
        probe_equal("port that was chosen", number, port_of(chosen));
        struct sockaddr_nl peer;
        size = sizeof peer;
        PROBE_TRY(getpeername(sender, (struct sockaddr *)&peer, &size));
        probe_equal("port of the peer", number, peer.nl_pid);
        char got[8] = "";
        PROBE_TRY(send(sender, "hello", 5, 0));
        size = sizeof peer;
        probe_equal("bytes from the sender", 5,
                    recvfrom(chosen, got, sizeof got, 0, (struct sockaddr *)&peer, &size));
        probe_equal("port of the sender", from, peer.nl_pid);
    } while (probe_more());
    return probe_pass();
}
