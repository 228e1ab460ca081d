// SPDX-License-Identifier: Apache-2.0
// Listening sockets that only an unreceived message holds (SCM_RIGHTS), at a path and at a port:
// connections that wait there come in their order, and clients see who listens (SO_PEERCRED).
#include "passing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

static const struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "listens"};

static int caller(void)
{
    const int fd = (int)PROBE_TRY(socket(AF_UNIX, SOCK_STREAM, 0));
    PROBE_TRY(connect(fd, (const struct sockaddr *)&name, sizeof name));
    return fd;
}

static int port_caller(const struct sockaddr_in *port)
{
    const int fd = (int)PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
    PROBE_TRY(connect(fd, (const struct sockaddr *)port, sizeof *port));
    return fd;
}

static void expect_connected(const char *what, int from, int listener)
{
    const int to = (int)PROBE_TRY(accept(listener, NULL, NULL));
    PROBE_TRY(write(from, what, strlen(what)));
    expect_text(what, what, to);
    close_files(2, (int[]){from, to});
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(chdir(probe_path(".")));
    do {
        int pair[2], listeners[2], got[most_files];
        char text[8];
        struct sockaddr_in port = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof port;
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        listeners[0] = (int)PROBE_TRY(socket(AF_UNIX, SOCK_STREAM, 0));
        unlink(name.sun_path);
        PROBE_TRY(bind(listeners[0], (const struct sockaddr *)&name, sizeof name));
        PROBE_TRY(listen(listeners[0], 4));
        listeners[1] = (int)PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
        PROBE_TRY(bind(listeners[1], (const struct sockaddr *)&port, sizeof port));
        PROBE_TRY(getsockname(listeners[1], (struct sockaddr *)&port, &size));
        PROBE_TRY(listen(listeners[1], 4));
        const int first = caller(), second = caller();
        send_files(pair[0], "l", 1, 2, listeners);
        close_files(2, listeners);
        probe_ready();
        PROBE_SABOTAGE("listening sockets", PROBE_TRY(read(pair[1], text, 1));
                       PROBE_TRY(write(pair[0], "l", 1)));
        probe_equal("listening sockets", 2, receive_files(pair[1], text, 1, got));
        const int third = caller();
        struct ucred peer;
        socklen_t room = sizeof peer;
        PROBE_TRY(getsockopt(third, SOL_SOCKET, SO_PEERCRED, &peer, &room));
        probe_equal("the one who listens", getpid(), peer.pid);
        expect_connected("the first one that has waited", first, got[0]);
        expect_connected("the second one that has waited", second, got[0]);
        expect_connected("a new one", third, got[0]);
        expect_connected("one at the port", port_caller(&port), got[1]);
        close_files(2, got);
        close_files(2, pair);
    } while (probe_more());
    return probe_pass();
}
