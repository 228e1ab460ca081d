// SPDX-License-Identifier: Apache-2.0
// A waiting UDP datagram whose receiver has asked for its destination address.
#include "ancillary.h"

#include <arpa/inet.h>
#include <netinet/in.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        struct sockaddr_in to = {.sin_family = AF_INET};
        const int fd = (int)PROBE_TRY(socket(AF_INET, SOCK_DGRAM, 0));
        PROBE_TRY(bind(fd, (struct sockaddr *)&to, sizeof to));
        PROBE_TRY(getsockname(fd, (struct sockaddr *)&to, &(socklen_t){sizeof to}));
        PROBE_TRY(setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &(int){1}, sizeof(int)));
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 6);
        PROBE_TRY(sendto(fd, "mine", 4, 0, (struct sockaddr *)&to, sizeof to));
        PROBE_TRY(recv(fd, (char[4]){0}, 4, MSG_PEEK)); // waits for its arrival
        probe_ready();
        PROBE_SABOTAGE("datagram", recv(fd, (char[4]){0}, 4, 0));
        struct in_pktinfo how;
        probe_equal("kind of what came with it", IP_PKTINFO, receive_with(fd, 4, &how, sizeof how));
        probe_equal("where it was sent to", to.sin_addr.s_addr, how.ipi_addr.s_addr);
        PROBE_TRY(close(fd));
    } while (probe_more());
    return probe_pass();
}
