// SPDX-License-Identifier: Apache-2.0
// A connection that was saved with --sockets=close: it still works, or is closed after a restart.
#include "probe.h"

#include <netinet/in.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
    PROBE_TRY(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)));
    PROBE_TRY(bind(listener, (struct sockaddr *)&address, size));
    PROBE_TRY(listen(listener, 1));
    PROBE_TRY(getsockname(listener, (struct sockaddr *)&address, &size));
    int client = PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
    PROBE_TRY(connect(client, (struct sockaddr *)&address, size));
    do {
        // No process has its other end, so no restart could bring it back.
        probe_ready();
        PROBE_SABOTAGE("connection", dup2(PROBE_TRY(open("/dev/null", O_RDWR)), client));
        char byte;
        if (write(client, "x", 1) != 1) {
            probe_equal("connection: errno of writing", EPIPE, errno);
            probe_equal("connection: reading", -1, read(client, &byte, 1));
            probe_equal("connection: errno of reading", ENOTCONN, errno);
            // The listener is restored, so the program can connect again.
            PROBE_TRY(close(client));
            client = PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
            PROBE_TRY(connect(client, (struct sockaddr *)&address, size));
            PROBE_TRY(write(client, "x", 1));
        }
        const int server = PROBE_TRY(accept(listener, NULL, NULL));
        probe_equal("connection: a byte through it", 1, read(server, &byte, 1));
        PROBE_TRY(close(server));
        PROBE_TRY(close(client));
        client = PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
        PROBE_TRY(connect(client, (struct sockaddr *)&address, size));
    } while (probe_more());
    return probe_pass();
}
