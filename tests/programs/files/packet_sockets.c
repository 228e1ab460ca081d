// SPDX-License-Identifier: Apache-2.0
// Packet sockets: one that is bound to an interface, with a filter and options; one that is not.
#include "probe.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

enum { protocol = 0x88b5 }; // for experiments

static int make(void)
{
    return (int)PROBE_TRY(socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

static struct sockaddr_ll name_of(int fd)
{
    struct sockaddr_ll name;
    memset(&name, 0, sizeof name);
    socklen_t size = sizeof name;
    PROBE_TRY(getsockname(fd, (struct sockaddr *)&name, &size));
    return name;
}

static int get(int fd, int option)
{
    int value = -1;
    socklen_t size = sizeof value;
    PROBE_TRY(getsockopt(fd, SOL_PACKET, option, &value, &size));
    return value;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const struct sockaddr_ll name = {.sll_family = AF_PACKET,
                                     .sll_protocol = htons(protocol),
                                     .sll_ifindex = (int)if_nametoindex("lo")};
    // Other runs of this program send packets, too.
    const unsigned mark = (unsigned)getpid();
    const unsigned marked = htonl(mark), others = ~marked;
    struct sock_filter own[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, mark, 1, 0),
                                BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, 0xffff)};
    const struct sock_fprog filter = {4, own};
    const int bound = make(), fresh = make();
    PROBE_TRY(setsockopt(bound, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter));
    PROBE_TRY(setsockopt(bound, SOL_PACKET, PACKET_AUXDATA, &(int){1}, sizeof(int)));
    PROBE_TRY(setsockopt(bound, SOL_PACKET, PACKET_VERSION, &(int){TPACKET_V2}, sizeof(int)));
    PROBE_TRY(bind(bound, (const struct sockaddr *)&name, sizeof name));
    do {
        probe_ready();
        PROBE_SABOTAGE("interface", dup2(make(), bound));
        PROBE_SABOTAGE("auxiliary",
                       setsockopt(bound, SOL_PACKET, PACKET_AUXDATA, &(int){0}, sizeof(int)));
        PROBE_SABOTAGE("comes", setsockopt(bound, SOL_SOCKET, SO_DETACH_FILTER, &(int){0}, 4));
        PROBE_SABOTAGE("unbound", bind(fresh, (const struct sockaddr *)&name, sizeof name));
        probe_equal("interface", name.sll_ifindex, name_of(bound).sll_ifindex);
        probe_equal("protocol", protocol, ntohs(name_of(bound).sll_protocol));
        probe_equal("auxiliary data", 1, get(bound, PACKET_AUXDATA));
        probe_equal("version", TPACKET_V2, get(bound, PACKET_VERSION));
        const struct sockaddr *to = (const struct sockaddr *)&name;
        PROBE_TRY(sendto(fresh, &others, sizeof others, 0, to, sizeof name));
        PROBE_TRY(sendto(fresh, &marked, sizeof marked, 0, to, sizeof name));
        unsigned got = 0;
        PROBE_TRY(recv(bound, &got, sizeof got, 0));
        probe_equal("what comes first", mark, ntohl(got));
        probe_equal("interface of the unbound one", 0, name_of(fresh).sll_ifindex);
    } while (probe_more());
    return probe_pass();
}
