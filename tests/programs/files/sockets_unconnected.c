// SPDX-License-Identifier: Apache-2.0
// Sockets without a peer: fresh ones, bound ones, datagram sockets that send to a well-known path.
#include "probe.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

static int port_of(int fd)
{
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    PROBE_TRY(getsockname(fd, (struct sockaddr *)&address, &size));
    return ntohs(address.sin_port);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fresh = PROBE_TRY(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    PROBE_TRY(setsockopt(fresh, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int)));
    PROBE_TRY(setsockopt(fresh, IPPROTO_TCP, TCP_CORK, &(int){1}, sizeof(int)));
    PROBE_TRY(setsockopt(fresh, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
    int udp = PROBE_TRY(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    PROBE_TRY(bind(udp, (struct sockaddr *)&any, sizeof any));
    int port = port_of(udp);
    // Relative, since sun_path is short and the run's directory may have a long path.
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "log"};
    PROBE_TRY(chdir(probe_path(".")));
    int log = PROBE_TRY(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    PROBE_TRY(bind(log, (struct sockaddr *)&name, sizeof name));
    PROBE_TRY(chmod("log", 0620));
    int sender = PROBE_TRY(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    PROBE_TRY(connect(sender, (struct sockaddr *)&name, sizeof name));
    struct sockaddr_un own = {.sun_family = AF_UNIX, .sun_path = "own"};
    int itself = PROBE_TRY(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    PROBE_TRY(bind(itself, (struct sockaddr *)&own, sizeof own));
    PROBE_TRY(connect(itself, (struct sockaddr *)&own, sizeof own));
    do {
        probe_ready();
        PROBE_SABOTAGE("keepalive", setsockopt(fresh, SOL_SOCKET, SO_KEEPALIVE, &(int){0}, 4));
        PROBE_SABOTAGE("port", dup2(PROBE_TRY(socket(AF_INET, SOCK_DGRAM, 0)), udp));
        PROBE_SABOTAGE("sender", dup2(PROBE_TRY(socket(AF_UNIX, SOCK_DGRAM, 0)), sender));
        int keeps = 0;
        socklen_t size = sizeof keeps;
        PROBE_TRY(getsockopt(fresh, SOL_SOCKET, SO_KEEPALIVE, &keeps, &size));
        probe_equal("keepalive of the fresh socket", 1, keeps);
        int corked = 0;
        PROBE_TRY(getsockopt(fresh, IPPROTO_TCP, TCP_CORK, &corked, &size));
        probe_equal("cork of the fresh socket", 1, corked);
        char interface[16] = "";
        size = sizeof interface;
        PROBE_TRY(getsockopt(fresh, SOL_SOCKET, SO_BINDTODEVICE, interface, &size));
        probe_equal_text("interface of the fresh socket", "lo", interface);
        probe_equal("port of the bound one", port, port_of(udp));
        any.sin_port = htons((uint16_t)port);
        PROBE_TRY(sendto(udp, "self", 4, 0, (struct sockaddr *)&any, sizeof any));
        char got[16] = "";
        probe_equal("datagram to itself", 4, recv(udp, got, sizeof got, 0));
        probe_equal("bytes of the sender", 5, send(sender, "hello", 5, 0));
        probe_equal("bytes from the sender", 5, recv(log, got, sizeof got, 0));
        probe_equal("bytes to itself", 4, send(itself, "mine", 4, 0));
        probe_equal("bytes from itself", 4, recv(itself, got, sizeof got, 0));
        struct stat seen;
        PROBE_TRY(stat("log", &seen));
        probe_equal("mode of the socket file", 0620, seen.st_mode & 07777);
    } while (probe_more());
    return probe_pass();
}
