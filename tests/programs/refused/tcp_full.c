// SPDX-License-Identifier: Apache-2.0
// A TCP connection that is full: what its reader has no room for, nobody can look at.
#include "probe.h"

#include <netinet/in.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    const int listener = PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
    PROBE_TRY(bind(listener, (struct sockaddr *)&address, size));
    PROBE_TRY(listen(listener, 1));
    PROBE_TRY(getsockname(listener, (struct sockaddr *)&address, &size));
    const int client = PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
    PROBE_TRY(connect(client, (struct sockaddr *)&address, size));
    const int server = PROBE_TRY(accept(listener, NULL, NULL));
    static char bytes[65536];
    do {
        long long sent = 0, got = 0;
        for (ssize_t n; (n = send(client, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;)
            sent += n;
        probe_ready();
        PROBE_SABOTAGE("connection", sent += 1);
        for (ssize_t n; got < sent; got += n) {
            n = recv(server, bytes, sizeof bytes, got == 0 ? 0 : MSG_DONTWAIT);
            if (n < 0 && errno == EAGAIN && probe_sabotaged("connection"))
                break;
            if (n < 0 && errno == EAGAIN)
                n = 0; // it is on its way
            PROBE_TRY(n);
        }
        probe_equal("connection: bytes through it", sent, got);
    } while (probe_more());
    return probe_pass();
}
