// SPDX-License-Identifier: Apache-2.0
// accept(2) on a listening socket, UNIX or TCP on the loopback.
#include "probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

static int listener;

static long call(void *unused)
{
    (void)unused;
    const int connection = accept(listener, NULL, NULL);
    char byte = 0;
    if (connection < 0 || read(connection, &byte, 1) != 1) {
        return -1;
    }
    close(connection);
    return byte;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_in inet;
    } address = {.any.sa_family = FAMILY};
    socklen_t size = sizeof address;
    if (FAMILY == AF_UNIX) {
        // Relative, since sun_path is short and the run's directory may have a long path.
        snprintf(address.local.sun_path, sizeof address.local.sun_path, "listening");
        PROBE_TRY(chdir(probe_path(".")));
        size = sizeof address.local;
    } else {
        address.inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        size = sizeof address.inet;
    }
    listener = PROBE_TRY(socket(FAMILY, SOCK_STREAM | SOCK_CLOEXEC, 0));
    PROBE_TRY(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)));
    PROBE_TRY(bind(listener, &address.any, size));
    PROBE_TRY(listen(listener, 5));
    if (FAMILY == AF_INET) {
        PROBE_TRY(getsockname(listener, &address.any, &size));
    }
    do {
        struct probe_sleeper sleeper;
        probe_sleep_in(&sleeper, SYS_accept, call, NULL);
        probe_ready();
        probe_still_asleep("accept", &sleeper);
        int connection = PROBE_TRY(socket(FAMILY, SOCK_STREAM, 0));
        probe_equal("connecting to the listener", 0, connect(connection, &address.any, size));
        PROBE_TRY(write(connection, probe_sabotaged("byte") ? "x" : "a", 1));
        probe_woken("byte through accept", &sleeper, 'a', 0);
        close(connection);
    } while (probe_more());
    return probe_pass();
}
