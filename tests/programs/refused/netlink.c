// SPDX-License-Identifier: Apache-2.0
// A bound netlink socket: the refusal must name it, not print bytes of its address.
#include "probe.h"

#include <linux/netlink.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int route = PROBE_TRY(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    struct sockaddr_nl address = {.nl_family = AF_NETLINK};
    PROBE_TRY(bind(route, (struct sockaddr *)&address, sizeof(address)));
    do {
        probe_ready();
        PROBE_SABOTAGE("socket", dup2(PROBE_TRY(open("/dev/null", O_RDWR)), route));
        socklen_t size = sizeof(address);
        probe_equal("the socket's name", 0, getsockname(route, (struct sockaddr *)&address, &size));
        probe_equal("the socket's family", AF_NETLINK, address.nl_family);
    } while (probe_more());
    return probe_pass();
}
