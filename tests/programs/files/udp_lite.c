// SPDX-License-Identifier: Apache-2.0
// A UDP-Lite socket: its port, and how much of a datagram its checksums cover.
#include "probe.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum { sent_coverage = 10, received_coverage = 11 }; // UDPLITE_SEND_CSCOV, UDPLITE_RECV_CSCOV

static int make(void)
{
    return (int)PROBE_TRY(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDPLITE));
}

static int get(int fd, int option)
{
    int value = -1;
    socklen_t size = sizeof value;
    PROBE_TRY(getsockopt(fd, IPPROTO_UDPLITE, option, &value, &size));
    return value;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int lite = make();
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof name;
    PROBE_TRY(setsockopt(lite, IPPROTO_UDPLITE, sent_coverage, &(int){12}, sizeof(int)));
    PROBE_TRY(setsockopt(lite, IPPROTO_UDPLITE, received_coverage, &(int){10}, sizeof(int)));
    PROBE_TRY(bind(lite, (struct sockaddr *)&name, size));
    PROBE_TRY(getsockname(lite, (struct sockaddr *)&name, &size));
    do {
        probe_ready();
        PROBE_SABOTAGE("coverage", dup2(make(), lite));
        PROBE_SABOTAGE("port", {
            dup2(make(), lite);
            PROBE_TRY(setsockopt(lite, IPPROTO_UDPLITE, sent_coverage, &(int){12}, sizeof(int)));
            PROBE_TRY(setsockopt(lite, IPPROTO_UDPLITE, received_coverage, &(int){10}, 4));
        });
        probe_equal("coverage of what is sent", 12, get(lite, sent_coverage));
        probe_equal("coverage of what comes", 10, get(lite, received_coverage));
        struct sockaddr_in now = {0};
        PROBE_TRY(getsockname(lite, (struct sockaddr *)&now, &size));
        probe_equal("port", name.sin_port, now.sin_port);
        PROBE_TRY(sendto(lite, "self", 4, 0, (struct sockaddr *)&name, sizeof name));
        char got[8];
        probe_equal("bytes to itself", 4, recv(lite, got, sizeof got, 0));
    } while (probe_more());
    return probe_pass();
}
