// SPDX-License-Identifier: Apache-2.0
// A full TCP connection: data beyond the receive buffer cannot be read by peeking.
#include "tcp_pair.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int client, server;
    probe_connect_tcp(&client, &server);
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
                n = 0; // still in flight
            PROBE_TRY(n);
        }
        probe_equal("connection: bytes through it", sent, got);
    } while (probe_more());
    return probe_pass();
}
