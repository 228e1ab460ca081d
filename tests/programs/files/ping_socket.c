// SPDX-License-Identifier: Apache-2.0
// An ICMP socket: its identifier, and the host that it is connected to, which has no port.
#include "probe.h"

#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/socket.h>

static int make(void)
{
    return (int)PROBE_TRY(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int ping = make();
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof name;
    PROBE_TRY(bind(ping, (struct sockaddr *)&name, size));
    PROBE_TRY(getsockname(ping, (struct sockaddr *)&name, &size));
    const unsigned short identifier = name.sin_port;
    name.sin_port = 0;
    PROBE_TRY(connect(ping, (struct sockaddr *)&name, sizeof name));
    do {
        probe_ready();
        PROBE_SABOTAGE("peer", dup2(make(), ping));
        PROBE_SABOTAGE("identifier", {
            dup2(make(), ping);
            PROBE_TRY(connect(ping, (struct sockaddr *)&name, sizeof name));
        });
        const struct icmphdr question = {.type = ICMP_ECHO,
                                         .un.echo.sequence = htons((uint16_t)probe_cycle())};
        struct icmphdr answer = {0};
        probe_equal("bytes to the peer", sizeof question,
                    send(ping, &question, sizeof question, 0));
        probe_equal("bytes of the answer", sizeof answer, recv(ping, &answer, sizeof answer, 0));
        probe_equal("kind of the answer", ICMP_ECHOREPLY, answer.type);
        probe_equal("identifier", identifier, answer.un.echo.id);
        probe_equal("number", question.un.echo.sequence, answer.un.echo.sequence);
    } while (probe_more());
    return probe_pass();
}
