// SPDX-License-Identifier: Apache-2.0
// A TCP connection that is not accepted yet: its other end is in no process.
#include "probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
    PROBE_TRY(bind(listener, (struct sockaddr *)&address, size));
    PROBE_TRY(listen(listener, 1));
    PROBE_TRY(getsockname(listener, (struct sockaddr *)&address, &size));
    int client = PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
    PROBE_TRY(connect(client, (struct sockaddr *)&address, size));
    int server = -1;
    do {
        char got[8] = "";
        PROBE_TRY(write(client, "sent", 4));
        probe_ready();
        PROBE_SABOTAGE("connection", shutdown(client, SHUT_RDWR));
        if (server < 0)
            server = PROBE_TRY(accept(listener, NULL, NULL));
        PROBE_SABOTAGE("connection", read(server, got, 4));
        probe_equal("bytes through the connection", 4, read(server, got, sizeof got));
        probe_equal_text("what the connection carried", "sent", got);
    } while (probe_more());
    return probe_pass();
}
