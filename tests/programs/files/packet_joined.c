// SPDX-License-Identifier: Apache-2.0
// A packet socket that has joined a group of addresses, twice: it hears that until it has left
// twice.
#include "probe.h"

#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

// Whether the kernel lists the address among those that interfaces listen to.
static bool is_listed(const unsigned char *address)
{
    char text[16], line[256];
    for (size_t i = 0; i < 6; i++)
        snprintf(text + 2 * i, 3, "%02x", address[i]);
    FILE *list = fopen("/proc/net/dev_mcast", "re");
    probe_true("the list of groups", list != NULL);
    bool found = false;
    while (fgets(line, sizeof line, list) != NULL)
        found |= strstr(line, text) != NULL;
    fclose(list);
    return found;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int packets = PROBE_TRY(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    const unsigned pid = (unsigned)getpid();
    const struct packet_mreq group = {
        .mr_ifindex = (int)if_nametoindex("lo"),
        .mr_type = PACKET_MR_MULTICAST,
        .mr_alen = 6,
        .mr_address = {3, 0, pid >> 24 & 0xff, pid >> 16 & 0xff, pid >> 8 & 0xff, pid & 0xff}};
    do {
        for (int i = 0; i < 2; i++)
            PROBE_TRY(setsockopt(packets, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &group, sizeof group));
        probe_ready();
        PROBE_SABOTAGE("left once", setsockopt(packets, SOL_PACKET, PACKET_DROP_MEMBERSHIP, &group,
                                               sizeof group));
        probe_true("the group that it has joined", is_listed(group.mr_address));
        for (int left = 0; left < 2; left++) {
            PROBE_TRY(
                setsockopt(packets, SOL_PACKET, PACKET_DROP_MEMBERSHIP, &group, sizeof group));
            probe_true(left == 0 ? "the group that it has left once" : "no group any more",
                       is_listed(group.mr_address) == (left == 0));
        }
    } while (probe_more());
    return probe_pass();
}
