// SPDX-License-Identifier: Apache-2.0
// A UNIX stream connection between two processes made by connect and accept, and its listener.
#include "probe.h"

#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "listening"};

static void client(void)
{
    int fd = PROBE_TRY(socket(AF_UNIX, SOCK_STREAM, 0));
    PROBE_TRY(connect(fd, (struct sockaddr *)&address, sizeof address));
    PROBE_TRY(write(fd, "question", 8));
    probe_await_check();
    char got[16] = "";
    probe_equal("size of the answer", 6, read(fd, got, sizeof got));
    probe_equal_text("answer", "answer", got);
    int again = PROBE_TRY(socket(AF_UNIX, SOCK_STREAM, 0));
    probe_equal("a second connect", 0, connect(again, (struct sockaddr *)&address, sizeof address));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(chdir(probe_path(".")));
    int listener = PROBE_TRY(socket(AF_UNIX, SOCK_STREAM, 0));
    PROBE_TRY(bind(listener, (struct sockaddr *)&address, sizeof address));
    PROBE_TRY(listen(listener, 4));
    do {
        char got[16] = "";
        const pid_t member = probe_fork(client);
        int connection = PROBE_TRY(accept(listener, NULL, NULL));
        probe_ready();
        PROBE_SABOTAGE("question", read(connection, got, 8); memset(got, 0, sizeof got);
                       shutdown(connection, SHUT_RD));
        probe_equal("size of the question", 8, read(connection, got, sizeof got));
        probe_equal_text("question", "question", got);
        PROBE_TRY(write(connection, "answer", 6));
        close(PROBE_TRY(accept(listener, NULL, NULL)));
        probe_reap("client", member);
        close(connection);
    } while (probe_more());
    return probe_pass();
}
