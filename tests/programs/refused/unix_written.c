// SPDX-License-Identifier: Apache-2.0
// A UNIX connection that is not accepted yet, with data in it already: only the accepted socket
// could be peeked at.
#include "probe.h"

#include <sys/socket.h>
#include <sys/un.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(chdir(probe_path(".")));
    const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "written"};
    const int listener = PROBE_TRY(socket(AF_UNIX, SOCK_STREAM, 0));
    PROBE_TRY(bind(listener, (const struct sockaddr *)&address, sizeof address));
    PROBE_TRY(listen(listener, 1));
    do {
        char got[8] = "";
        const int client = PROBE_TRY(socket(AF_UNIX, SOCK_STREAM, 0));
        PROBE_TRY(connect(client, (const struct sockaddr *)&address, sizeof address));
        PROBE_TRY(write(client, "sent", 4));
        probe_ready();
        const int server = PROBE_TRY(accept(listener, NULL, NULL));
        PROBE_SABOTAGE("connection", read(server, got, 1));
        probe_equal("bytes through the connection", 4, read(server, got, sizeof got));
        probe_equal_text("what the connection carried", "sent", got);
        close(server);
        close(client);
    } while (probe_more());
    return probe_pass();
}
