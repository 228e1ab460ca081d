// SPDX-License-Identifier: Apache-2.0
// UDP-Lite sockets: the port, and how much of a datagram the checksums cover; one that is
// connected, and one that was shut down for reading.
#include "probe.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

enum { sent_coverage = 10, received_coverage = 11 }; // UDPLITE_SEND_CSCOV, UDPLITE_RECV_CSCOV

static int make(void)
{
    return (int)PROBE_TRY(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDPLITE));
}

static int connected_to(const struct sockaddr_in *name)
{
    const struct sockaddr_in own = {.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = make();
    PROBE_TRY(bind(fd, (const struct sockaddr *)&own, sizeof own));
    PROBE_TRY(connect(fd, (const struct sockaddr *)name, sizeof *name));
    return fd;
}

static void check_peer(const char *what, int fd, const struct sockaddr_in *name, int to)
{
    struct sockaddr_in now = {0}, own = {0}, from = {0};
    socklen_t size = sizeof now;
    char got[8];
    probe_true(what, getpeername(fd, (struct sockaddr *)&now, &size) == 0);
    probe_equal(what, name->sin_port, now.sin_port);
    PROBE_TRY(getsockname(fd, (struct sockaddr *)&own, &size));
    PROBE_TRY(send(fd, "peer", 4, 0));
    probe_equal(what, 4, recvfrom(to, got, sizeof got, 0, (struct sockaddr *)&from, &size));
    probe_equal(what, own.sin_port, from.sin_port);
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
    const int connected = connected_to(&name), ended = connected_to(&name);
    PROBE_TRY(shutdown(ended, SHUT_RD));
    do {
        probe_ready();
        PROBE_SABOTAGE("connected", dup2(make(), connected));
        PROBE_SABOTAGE("shut", dup2(connected_to(&name), ended));
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
        check_peer("connected one", connected, &name, lite);
        check_peer("one that was shut down", ended, &name, lite);
        struct pollfd end = {.fd = ended, .events = POLLRDHUP};
        probe_equal("one that was shut down: its end", 1, poll(&end, 1, 0));
    } while (probe_more());
    return probe_pass();
}
