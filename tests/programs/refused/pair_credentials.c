// SPDX-License-Identifier: Apache-2.0
// A datagram in the remaining end of a pair whose receiver has asked for the sender's id.
#include "ancillary.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        int pair[2];
        PROBE_TRY(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
        PROBE_TRY(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)));
        PROBE_TRY(send(pair[0], "mine", 4, 0));
        PROBE_TRY(close(pair[0]));
        probe_ready();
        PROBE_SABOTAGE("datagram", recv(pair[1], (char[4]){0}, 4, 0));
        struct ucred who;
        probe_equal("kind of what came with it", SCM_CREDENTIALS,
                    receive_with(pair[1], 4, &who, sizeof who));
        probe_equal("process that has sent it", getpid(), who.pid);
        PROBE_TRY(close(pair[1]));
    } while (probe_more());
    return probe_pass();
}
