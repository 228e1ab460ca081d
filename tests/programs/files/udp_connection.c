// SPDX-License-Identifier: Apache-2.0
// A UDP socket that is connected to an address of the loopback interface, which nobody has: it
// still is, and its datagrams go there.
#include "probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static int bound(struct sockaddr_in *address)
{
    const int fd = (int)PROBE_TRY(socket(AF_INET, SOCK_DGRAM, 0));
    PROBE_TRY(bind(fd, (struct sockaddr *)address, sizeof *address));
    PROBE_TRY(getsockname(fd, (struct sockaddr *)address, &(socklen_t){sizeof *address}));
    return fd;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct sockaddr_in peer = own;
        const int fd = bound(&own), other = bound(&peer);
        PROBE_TRY(connect(fd, (struct sockaddr *)&peer, sizeof peer));
        PROBE_TRY(close(other));
        probe_ready();
        PROBE_SABOTAGE("connection", connect(fd, (struct sockaddr *)&own, sizeof own));
        struct sockaddr_in now = {0};
        PROBE_TRY(getpeername(fd, (struct sockaddr *)&now, &(socklen_t){sizeof now}));
        probe_equal_bytes("peer of the connection", &peer, &now, sizeof now);
        PROBE_TRY(getsockname(fd, (struct sockaddr *)&now, &(socklen_t){sizeof now}));
        probe_equal_bytes("name of the connection", &own, &now, sizeof now);
        const int again = bound(&peer);
        char byte = 0;
        probe_equal("sent", 1, send(fd, "x", 1, 0));
        probe_equal("arrived", 1, recv(again, &byte, 1, 0));
        PROBE_TRY(close(again));
        PROBE_TRY(close(fd));
    } while (probe_more());
    return probe_pass();
}
