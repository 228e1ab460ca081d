// SPDX-License-Identifier: Apache-2.0
// Both ends of a TCP connection that has ended: reads give end of file, writes EPIPE, and the
// sockets tell the names that they had, while another one listens at the same address.
#include "probe.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static void await_end(int fd)
{
    struct tcp_info info;
    do {
        socklen_t size = sizeof info;
        PROBE_TRY(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size));
        sched_yield();
    } while (info.tcpi_state != TCP_CLOSE);
}

static struct sockaddr_in name_of(int fd)
{
    struct sockaddr_in name = {0};
    socklen_t size = sizeof name;
    PROBE_TRY(getsockname(fd, (struct sockaddr *)&name, &size));
    return name;
}

static struct sockaddr_in peer_of(int fd)
{
    struct sockaddr_in name = {0};
    socklen_t size = sizeof name;
    PROBE_TRY(getsockopt(fd, SOL_SOCKET, SO_PEERNAME, &name, &size));
    return name;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    const int listener = PROBE_TRY(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    PROBE_TRY(bind(listener, (struct sockaddr *)&address, sizeof address));
    PROBE_TRY(listen(listener, 1));
    PROBE_TRY(getsockname(listener, (struct sockaddr *)&address, &size));
    int ends[2];
    ends[0] = PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
    PROBE_TRY(connect(ends[0], (struct sockaddr *)&address, sizeof address));
    ends[1] = PROBE_TRY(accept(listener, NULL, NULL));
    struct sockaddr_in names[2], peers[2];
    for (int i = 0; i < 2; i++) {
        PROBE_TRY(shutdown(ends[i], SHUT_WR));
    }
    for (int i = 0; i < 2; i++) {
        await_end(ends[i]);
        names[i] = name_of(ends[i]);
        peers[i] = peer_of(ends[i]);
    }
    probe_equal_bytes("a socket's former name", &peers[0], &names[1], sizeof names[0]);
    do {
        probe_ready();
        PROBE_SABOTAGE("end", dup2(PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0)), ends[1]));
        PROBE_SABOTAGE("name", names[1].sin_port++);
        PROBE_SABOTAGE("peer", peers[0].sin_port++);
        for (int i = 0; i < 2; i++) {
            char byte;
            probe_equal("bytes at the end", 0, recv(ends[i], &byte, 1, MSG_DONTWAIT));
            probe_equal("bytes that could be sent", -1, write(ends[i], "x", 1));
            probe_equal("error of that", EPIPE, errno);
            const struct sockaddr_in name = name_of(ends[i]);
            probe_equal_bytes("name of an ended connection", &names[i], &name, sizeof name);
            const struct sockaddr_in peer = peer_of(ends[i]);
            probe_equal_bytes("peer of an ended connection", &peers[i], &peer, sizeof peer);
            probe_equal("name of a peer that is there", -1,
                        getpeername(ends[i], (struct sockaddr *)&address, &size));
        }
        const struct sockaddr_in listens = name_of(listener);
        probe_equal("port of the listener", names[1].sin_port, listens.sin_port);
    } while (probe_more());
    return probe_pass();
}
