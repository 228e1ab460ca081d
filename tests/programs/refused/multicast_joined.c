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
    PROBE_TRY(setsockopt(lite, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group));
    do {
        probe_ready();
        PROBE_SABOTAGE("group",
                       setsockopt(lite, IPPROTO_IP, IP_DROP_MEMBERSHIP, &group, sizeof group));
        struct group_filter asked = {.gf_interface = (unsigned)group.imr_ifindex};
        const struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = group.imr_multiaddr};
        memcpy(&asked.gf_group, &address, sizeof address);
        socklen_t size = sizeof asked;
        probe_equal("the group that it has joined", 0,
                    getsockopt(lite, IPPROTO_IP, MCAST_MSFILTER, &asked, &size));
    } while (probe_more());
    return probe_pass();
}
