// SPDX-License-Identifier: Apache-2.0
// Packet sockets that share their packets (PACKET_FANOUT): each packet comes to one of them.
#include "probe.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

enum { protocol = 0x88b6, members = 2, packets = 8 }; // the protocol is one for experiments

static int make(void)
{
    return (int)PROBE_TRY(socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

static unsigned group_of(int fd)
{
    unsigned group = 0;
    socklen_t size = sizeof group;
    PROBE_TRY(getsockopt(fd, SOL_PACKET, PACKET_FANOUT, &group, &size));
    return group;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const struct sockaddr_ll name = {.sll_family = AF_PACKET,
                                     .sll_protocol = htons(protocol),
                                     .sll_ifindex = (int)if_nametoindex("lo")};
    // Other runs of this program send packets, too, and have groups.
    const unsigned mark = (unsigned)getpid(), marked = htonl(mark);
    const unsigned group = (mark & 0xffff) | PACKET_FANOUT_LB << 16;
    struct sock_filter own[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, mark, 1, 0),
                                BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, 0xffff)};
    const struct sock_fprog filter = {4, own};
    struct pollfd all[members];
    for (int i = 0; i < members; i++) {
        all[i] = (struct pollfd){.fd = make(), .events = POLLIN};
        PROBE_TRY(setsockopt(all[i].fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter));
        PROBE_TRY(bind(all[i].fd, (const struct sockaddr *)&name, sizeof name));
        PROBE_TRY(setsockopt(all[i].fd, SOL_PACKET, PACKET_FANOUT, &group, sizeof group));
    }
    const int sender = make();
    do {
        probe_ready();
        PROBE_SABOTAGE("group", dup2(make(), all[1].fd));
        int got[members] = {0};
        for (int i = 0; i < members; i++)
            probe_equal("group", group, group_of(all[i].fd));
        for (int i = 0; i < packets; i++)
            PROBE_TRY(sendto(sender, &marked, sizeof marked, 0, (const struct sockaddr *)&name,
                             sizeof name));
        while (got[0] + got[1] < packets) {
            PROBE_TRY(poll(all, members, -1));
            for (int i = 0; i < members; i++) {
                unsigned text;
                while (recv(all[i].fd, &text, sizeof text, MSG_DONTWAIT) > 0)
                    got[i]++;
            }
        }
        probe_equal("packets of the group", packets, got[0] + got[1]);
    } while (probe_more());
    return probe_pass();
}
