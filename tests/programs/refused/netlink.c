// SPDX-License-Identifier: Apache-2.0
// A bound netlink socket of a protocol that may keep something for it: the refusal must name it.
#include "probe.h"

#include <linux/netlink.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int generic = PROBE_TRY(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC));
    struct sockaddr_nl address = {.nl_family = AF_NETLINK};
    PROBE_TRY(bind(generic, (struct sockaddr *)&address, sizeof(address)));
    do {
        probe_ready();
        PROBE_SABOTAGE("socket", dup2(PROBE_TRY(open("/dev/null", O_RDWR)), generic));
        socklen_t size = sizeof(address);
        probe_equal("the socket's name", 0,
                    getsockname(generic, (struct sockaddr *)&address, &size));
        probe_equal("the socket's family", AF_NETLINK, address.nl_family);
    } while (probe_more());
    return probe_pass();
}
