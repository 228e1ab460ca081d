// SPDX-License-Identifier: Apache-2.0
// A waiting datagram whose receiver has asked for the sender's process id.
#include "ancillary.h"

#include <stddef.h>
#include <sys/un.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        const int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "probe.%d.%u", getpid(),
                               probe_cycle());
        const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
        const int receiver = (int)PROBE_TRY(socket(AF_UNIX, SOCK_DGRAM, 0));
        PROBE_TRY(bind(receiver, (struct sockaddr *)&name, size));
        PROBE_TRY(setsockopt(receiver, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)));
        const int sender = (int)PROBE_TRY(socket(AF_UNIX, SOCK_DGRAM, 0));
        PROBE_TRY(sendto(sender, "mine", 4, 0, (struct sockaddr *)&name, size));
        PROBE_TRY(close(sender));
        probe_ready();
        PROBE_SABOTAGE("datagram", recv(receiver, (char[4]){0}, 4, 0));
        struct ucred who;
        probe_equal("kind of what came with it", SCM_CREDENTIALS,
                    receive_with(receiver, 4, &who, sizeof who));
        probe_equal("process that has sent it", getpid(), who.pid);
        PROBE_TRY(close(receiver));
    } while (probe_more());
    return probe_pass();
}
