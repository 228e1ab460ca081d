// SPDX-License-Identifier: Apache-2.0
// Another congestion control than the system's default (TCP_CONGESTION): of a socket without a
// connection, one that listens, and both ends of a connection.
#include "tcp_pair.h"

#include <netinet/tcp.h>

enum { FRESH, LISTENING, CLIENT, SERVER, COUNT };

static int sockets[COUNT];
static const char *const names[COUNT] = {"fresh", "listening", "client", "server"};

static const char *congestion(int fd)
{
    static char name[16];
    socklen_t size = sizeof name;
    PROBE_TRY(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size));
    return name;
}

static int choose(int fd, const char *name)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    sockets[FRESH] = (int)PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
    sockets[LISTENING] = (int)PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
    PROBE_TRY(listen(sockets[LISTENING], 1));
    probe_connect_tcp(&sockets[CLIENT], &sockets[SERVER]);
    char usual[16];
    strcpy(usual, congestion(sockets[FRESH]));
    const char *const chosen = strcmp(usual, "reno") == 0 ? "cubic" : "reno";
    for (int i = 0; i < COUNT; i++) {
        if (choose(sockets[i], chosen) != 0) {
            probe_lacks("a second congestion control");
        }
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("listening", choose(sockets[LISTENING], usual));
        for (int i = 0; i < COUNT; i++) {
            probe_equal_text(names[i], chosen, congestion(sockets[i]));
        }
    } while (probe_more());
    return probe_pass();
}
