// SPDX-License-Identifier: Apache-2.0
// A socket of UDP-Lite that has joined a group of multicasts.
#include "probe.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int lite = PROBE_TRY(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDPLITE));
    const struct ip_mreqn group = {.imr_multiaddr.s_addr = htonl(0xefff0000U | (getpid() & 0xffff)),
                                   .imr_ifindex = (int)if_nametoindex("lo")};
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t size = sizeof name;
    PROBE_TRY(bind(lite, (struct sockaddr *)&name, size));
    PROBE_TRY(getsockname(lite, (struct sockaddr *)&name, &size));
    PROBE_TRY(setsockopt(lite, IPPROTO_IP, IP_MULTICAST_IF, &(unsigned){htonl(INADDR_LOOPBACK)},
                         sizeof(unsigned)));
    PROBE_TRY(setsockopt(lite, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group));
    name.sin_addr = group.imr_multiaddr;
    do {
        probe_ready();
        PROBE_SABOTAGE("group",
                       setsockopt(lite, IPPROTO_IP, IP_DROP_MEMBERSHIP, &group, sizeof group));
        PROBE_SABOTAGE("interface", setsockopt(lite, IPPROTO_IP, IP_MULTICAST_IF, &(int){0}, 4));
        struct group_filter asked = {.gf_interface = (unsigned)group.imr_ifindex};
        memcpy(&asked.gf_group, &name, sizeof name);
        size = sizeof asked;
        probe_equal("the group that it has joined", 0,
                    getsockopt(lite, IPPROTO_IP, MCAST_MSFILTER, &asked, &size));
        probe_equal("of all sources", MCAST_EXCLUDE, asked.gf_fmode);
        unsigned interface = 0;
        size = sizeof interface;
        PROBE_TRY(getsockopt(lite, IPPROTO_IP, IP_MULTICAST_IF, &interface, &size));
        probe_equal("interface to send to groups", INADDR_LOOPBACK, ntohl(interface));
        PROBE_TRY(sendto(lite, "group", 5, 0, (struct sockaddr *)&name, sizeof name));
        char got[8];
        probe_equal("bytes to the group", 5, recv(lite, got, sizeof got, 0));
    } while (probe_more());
    return probe_pass();
}
