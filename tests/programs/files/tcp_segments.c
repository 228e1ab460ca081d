// SPDX-License-Identifier: Apache-2.0
// Limits of segments (TCP_MAXSEG): of a socket without a connection, of one that listens, and those
// with which the two ends of a connection were made.
#include "probe.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

enum { FRESH = 1000, LISTENING = 1200, CALLER = 900, OF_TIMESTAMPS = 12 };

static struct sockaddr_in address = {.sin_family = AF_INET};

static int segment(int fd)
{
    int size = -1;
    PROBE_TRY(getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &size, &(socklen_t){sizeof size}));
    return size;
}

static int announced(int fd)
{
    struct tcp_info info;
    PROBE_TRY(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &(socklen_t){sizeof info}));
    return (int)info.tcpi_advmss;
}

static void limit(int fd, int size)
{
    PROBE_TRY(setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &size, sizeof size));
}

static int socket_with(int size)
{
    const int fd = (int)PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
    limit(fd, size);
    return fd;
}

static int call(int fd)
{
    PROBE_TRY(connect(fd, (struct sockaddr *)&address, sizeof address));
    return fd;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fresh = socket_with(FRESH);
    if (segment(fresh) != FRESH) {
        probe_lacks("a limit of segments that the kernel tells");
    }
    const int listener = socket_with(LISTENING);
    PROBE_TRY(bind(listener, (struct sockaddr *)&address, sizeof address));
    PROBE_TRY(listen(listener, 2));
    PROBE_TRY(getsockname(listener, (struct sockaddr *)&address, &(socklen_t){sizeof address}));
    const int caller = call(socket_with(CALLER));
    const int accepted = (int)PROBE_TRY(accept(listener, NULL, NULL));
    const int sizes[] = {segment(caller), segment(accepted), announced(caller),
                         announced(accepted)};
    probe_within("size that the caller announces", CALLER - OF_TIMESTAMPS, CALLER, sizes[2]);
    probe_within("size that the listener announces", LISTENING - OF_TIMESTAMPS, LISTENING,
                 sizes[3]);
    do {
        probe_ready();
        PROBE_SABOTAGE("fresh", limit(fresh, FRESH + 1));
        probe_equal("fresh", FRESH, segment(fresh));
        probe_equal("listening", LISTENING, segment(listener));
        probe_equal("caller", sizes[0], segment(caller));
        probe_equal("accepted", sizes[1], segment(accepted));
        probe_equal("size that the caller has announced", sizes[2], announced(caller));
        probe_equal("size that the listener has announced", sizes[3], announced(accepted));
        const int later = call((int)PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0)));
        const int accepted_later = (int)PROBE_TRY(accept(listener, NULL, NULL));
        probe_equal("size that the listener announces later", sizes[3], announced(accepted_later));
        PROBE_TRY(close(later));
        PROBE_TRY(close(accepted_later));
    } while (probe_more());
    return probe_pass();
}
