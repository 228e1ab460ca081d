// SPDX-License-Identifier: Apache-2.0
// A netlink socket in which a message waits that only its sender could send again.
#include "probe.h"

#include <linux/netlink.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int own = PROBE_TRY(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK));
    struct sockaddr_nl name = {.nl_family = AF_NETLINK};
    socklen_t size = sizeof name;
    PROBE_TRY(bind(own, (struct sockaddr *)&name, size));
    PROBE_TRY(getsockname(own, (struct sockaddr *)&name, &size));
    do {
        char got[8] = "";
        PROBE_TRY(sendto(own, "hello", 5, 0, (struct sockaddr *)&name, sizeof name));
        probe_ready();
        PROBE_SABOTAGE("message", recv(own, got, sizeof got, 0));
        probe_equal("bytes of the message", 5, recv(own, got, sizeof got, MSG_DONTWAIT));
    } while (probe_more());
    return probe_pass();
}
