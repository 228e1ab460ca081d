// SPDX-License-Identifier: Apache-2.0
// A TCP connection in which urgent data waits.
#include "tcp_pair.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int client, server;
    probe_connect_tcp(&client, &server);
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
