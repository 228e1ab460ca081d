// SPDX-License-Identifier: Apache-2.0
// Sockets that share a port by SO_REUSEPORT, some of which have reset the option since; and one at
// an address that the machine does not have (IP_FREEBIND).
#include "probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t size = sizeof value;
    PROBE_TRY(getsockopt(fd, level, name, &value, &size));
    return value;
}

static void set(int fd, int level, int name, int value)
{
    PROBE_TRY(setsockopt(fd, level, name, &value, sizeof value));
}

static struct sockaddr_in name_of(int fd)
{
    struct sockaddr_in name;
    socklen_t size = sizeof name;
    PROBE_TRY(getsockname(fd, (struct sockaddr *)&name, &size));
    return name;
}

static int open_at(int kind, int level, int way, struct sockaddr_in *name)
{
    const int fd = PROBE_TRY(socket(AF_INET, kind, 0));
    set(fd, level, way, 1);
    PROBE_TRY(bind(fd, (struct sockaddr *)name, sizeof *name));
    *name = name_of(fd);
    return fd;
}

int main(int argc, char **argv)
{
    enum { SHARING = 3 };
    probe_start(argc, argv);
    const int kinds[] = {SOCK_DGRAM, SOCK_STREAM};
    int shared[2][SHARING];
    uint16_t ports[2];
    for (int kind = 0; kind < 2; kind++) {
        struct sockaddr_in name = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        for (int i = 0; i < SHARING; i++) {
            shared[kind][i] = open_at(kinds[kind], SOL_SOCKET, SO_REUSEPORT, &name);
            if (kinds[kind] == SOCK_STREAM) {
                PROBE_TRY(listen(shared[kind][i], 5));
            }
        }
        ports[kind] = name.sin_port;
        for (int i = 1; i < SHARING; i++) {
            set(shared[kind][i], SOL_SOCKET, SO_REUSEPORT, 0);
        }
    }
    struct sockaddr_in elsewhere = {.sin_family = AF_INET};
    PROBE_TRY(inet_pton(AF_INET, "203.0.113.7", &elsewhere.sin_addr));
    const int away = open_at(SOCK_DGRAM, IPPROTO_IP, IP_FREEBIND, &elsewhere);
    struct sockaddr_in further = elsewhere;
    further.sin_port = 0;
    const int set_off = open_at(SOCK_STREAM, IPPROTO_IP, IP_FREEBIND, &further);
    set(set_off, IPPROTO_IP, IP_FREEBIND, 0); // when it is bound
    do {
        probe_ready();
        PROBE_SABOTAGE("port", dup2(away, shared[0][1]));
        PROBE_SABOTAGE("sharing", set(shared[1][2], SOL_SOCKET, SO_REUSEPORT, 1));
        for (int kind = 0; kind < 2; kind++) {
            for (int i = 0; i < SHARING; i++) {
                probe_equal("port", ports[kind], name_of(shared[kind][i]).sin_port);
                probe_equal("sharing of the port", i == 0,
                            option(shared[kind][i], SOL_SOCKET, SO_REUSEPORT));
            }
        }
        probe_equal("address that is not here", elsewhere.sin_addr.s_addr,
                    name_of(away).sin_addr.s_addr);
        probe_equal("IP_FREEBIND", 1, option(away, IPPROTO_IP, IP_FREEBIND));
        probe_equal("address of another one that is not here", further.sin_addr.s_addr,
                    name_of(set_off).sin_addr.s_addr);
        probe_equal("IP_FREEBIND of that one", 0, option(set_off, IPPROTO_IP, IP_FREEBIND));
    } while (probe_more());
    return probe_pass();
}
