// SPDX-License-Identifier: Apache-2.0
// A UDP socket connected to a peer.
#include "probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int ends[2];
    struct sockaddr_in addresses[2];
    for (int i = 0; i < 2; i++) {
        socklen_t size = sizeof addresses[i];
        addresses[i] =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        ends[i] = PROBE_TRY(socket(AF_INET, SOCK_DGRAM, 0));
        PROBE_TRY(bind(ends[i], (struct sockaddr *)&addresses[i], size));
        PROBE_TRY(getsockname(ends[i], (struct sockaddr *)&addresses[i], &size));
    }
    PROBE_TRY(connect(ends[0], (struct sockaddr *)&addresses[1], sizeof addresses[1]));
    do {
        char got[8] = "";
        probe_ready();
        PROBE_SABOTAGE("datagram", send(ends[0], "fake", 4, 0));
        PROBE_TRY(send(ends[0], "sent", 4, 0));
        probe_equal("bytes of the datagram", 4, recv(ends[1], got, sizeof got, 0));
        probe_equal_text("datagram", "sent", got);
    } while (probe_more());
    return probe_pass();
}
