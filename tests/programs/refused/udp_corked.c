// SPDX-License-Identifier: Apache-2.0
// A datagram whose first part waits for the rest: by MSG_MORE, or by UDP_CORK (BY_OPTION).
#include "probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#ifdef BY_OPTION
enum { CORK = 1, FLAGS = 0 };
#else
enum { CORK = 0, FLAGS = MSG_MORE };
#endif
enum { UDP_CORK_OPTION = 1 };

static void cork(int fd, int on)
{
    PROBE_TRY(setsockopt(fd, IPPROTO_UDP, UDP_CORK_OPTION, &on, sizeof on));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int receiver = (int)PROBE_TRY(socket(AF_INET, SOCK_DGRAM, 0));
    PROBE_TRY(bind(receiver, (struct sockaddr *)&to, sizeof to));
    PROBE_TRY(getsockname(receiver, (struct sockaddr *)&to, &(socklen_t){sizeof to}));
    const int sender = (int)PROBE_TRY(socket(AF_INET, SOCK_DGRAM, 0));
    do {
        char text[16] = "";
        cork(sender, CORK);
        PROBE_TRY(sendto(sender, "first ", 6, FLAGS, (struct sockaddr *)&to, sizeof to));
        probe_ready();
        PROBE_SABOTAGE("datagram", cork(sender, 1); cork(sender, 0);
                       recv(receiver, text, sizeof text, 0));
        PROBE_TRY(sendto(sender, "second", 6, 0, (struct sockaddr *)&to, sizeof to));
        cork(sender, 0);
        probe_equal("size of the datagram", 12, recv(receiver, text, sizeof text, 0));
        probe_equal_bytes("datagram", "first second", text, 12);
    } while (probe_more());
    return probe_pass();
}
