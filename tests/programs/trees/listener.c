// SPDX-License-Identifier: Apache-2.0
// A server that only a child listens on: each client is served, and told the child's pid.
#include "probe.h"

#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un address = {.sun_family = AF_UNIX};

static void child(void)
{
    const int server = PROBE_TRY(socket(AF_UNIX, SOCK_STREAM, 0));
    unlink(address.sun_path);
    PROBE_TRY(bind(server, (struct sockaddr *)&address, sizeof(address)));
    PROBE_TRY(listen(server, 3));
    const char *answer = "served";
    probe_await_check();
    PROBE_SABOTAGE("answer", answer = "denied");
    const int client = PROBE_TRY(accept(server, NULL, NULL));
    PROBE_TRY(write(client, answer, 6));
    close(client);
    close(server);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", probe_path("socket"));
    do {
        const pid_t member = probe_fork(child);
        probe_ready();
        const int client = PROBE_TRY(socket(AF_UNIX, SOCK_STREAM, 0));
        PROBE_TRY(connect(client, (struct sockaddr *)&address, sizeof(address)));
        struct ucred peer;
        socklen_t size = sizeof(peer);
        PROBE_TRY(getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size));
        probe_equal("who listens", member, peer.pid);
        char got[16] = "";
        probe_equal("bytes of the answer", 6, read(client, got, sizeof(got)));
        probe_equal_text("answer", "served", got);
        close(client);
        probe_reap("child", member);
    } while (probe_more());
    return probe_pass();
}
