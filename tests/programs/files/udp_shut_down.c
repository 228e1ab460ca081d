// SPDX-License-Identifier: Apache-2.0
// UDP sockets that were shut down for reading, writing and both: bound, connected, and neither.
// Datagrams that had arrived before can still be read.
#include "probe.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

enum kind { fresh, named, connected, kinds };

static struct sockaddr_in loopback(void)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int bound(struct sockaddr_in *address)
{
    const int fd = (int)PROBE_TRY(socket(AF_INET, SOCK_DGRAM, 0));
    PROBE_TRY(bind(fd, (struct sockaddr *)address, sizeof *address));
    PROBE_TRY(getsockname(fd, (struct sockaddr *)address, &(socklen_t){sizeof *address}));
    return fd;
}

static void shut(int fd, int how)
{
    if (shutdown(fd, how) != 0 && errno != ENOTCONN) // ENOTCONN, but it takes effect
        probe_fail("shutdown: %s", strerror(errno));
}

// For sockets without a port the kernel shows only whether reading has been shut down.
static int is_shown(enum kind kind, int how)
{
    return kind != fresh || how != SHUT_WR;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    do {
        struct sockaddr_in at = loopback(), own[kinds][3];
        const int peer = bound(&at);
        int sockets[kinds][3];
        for (int kind = 0; kind < kinds; kind++) {
            for (int how = SHUT_RD; how <= SHUT_RDWR; how++) {
                own[kind][how] = loopback();
                int *fd = &sockets[kind][how];
                *fd = kind == fresh ? (int)PROBE_TRY(socket(AF_INET, SOCK_DGRAM, 0))
                                    : bound(&own[kind][how]);
                if (kind == connected)
                    PROBE_TRY(connect(*fd, (struct sockaddr *)&at, sizeof at));
                if (kind != fresh)
                    PROBE_TRY(sendto(peer, "x", 1, 0, (struct sockaddr *)&own[kind][how],
                                     sizeof own[kind][how]));
                if (is_shown(kind, how))
                    shut(*fd, how);
            }
        }
        probe_ready();
        PROBE_SABOTAGE("waiting", recv(sockets[named][SHUT_RD], &(char){0}, 1, 0));
        PROBE_SABOTAGE("reading", shut(sockets[named][SHUT_WR], SHUT_RD));
        PROBE_SABOTAGE("writing", shut(sockets[connected][SHUT_RD], SHUT_WR));
        for (int kind = 0; kind < kinds; kind++) {
            for (int how = SHUT_RD; how <= SHUT_RDWR; how++) {
                const int fd = sockets[kind][how];
                char byte;
                if (!is_shown(kind, how))
                    continue;
                if (kind != fresh)
                    probe_equal("waiting datagrams", 1, recv(fd, &byte, 1, MSG_DONTWAIT));
                struct pollfd end = {.fd = fd, .events = POLLRDHUP};
                poll(&end, 1, 0);
                probe_equal("reading has ended", how != SHUT_WR, (end.revents & POLLRDHUP) != 0);
                probe_equal("what is read then", how != SHUT_WR ? 0 : -1,
                            recv(fd, &byte, 1, how != SHUT_WR ? 0 : MSG_DONTWAIT));
                errno = 0;
                const ssize_t sent = sendto(fd, "y", 1, 0, (struct sockaddr *)&at, sizeof at);
                probe_equal("writing", how == SHUT_RD ? 1 : -1, sent);
                if (how != SHUT_RD)
                    probe_equal("errno of writing", EPIPE, errno);
                PROBE_TRY(close(fd));
            }
        }
        for (int i = 0; i < kinds; i++) { // each datagram has arrived, and nothing else
            char byte;
            probe_equal("bytes that came", 1, recv(peer, &byte, 1, 0));
            probe_equal("what came", 'y', byte);
        }
        PROBE_TRY(close(peer));
        PROBE_TRY(close(sockets[fresh][SHUT_WR]));
    } while (probe_more());
    return probe_pass();
}
