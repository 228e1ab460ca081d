// SPDX-License-Identifier: Apache-2.0
// A TCP connection in which urgent data waits.
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
    do {
        char got = 0;
        PROBE_TRY(send(client, "!", 1, MSG_OOB));
        probe_ready();
        PROBE_SABOTAGE("urgent", recv(server, &got, 1, MSG_OOB); got = 0);
        probe_equal("an urgent byte", 1, recv(server, &got, 1, MSG_OOB));
        probe_equal("which one", '!', got);
    } while (probe_more());
    return probe_pass();
}
