// SPDX-License-Identifier: Apache-2.0
// The main thread sleeps in read(2) while another waits for the order to check.
#include "probe.h"

static int ends[2];

static void *protocol(void *unused)
{
    probe_await_blocked(getpid(), SYS_read);
    probe_ready();
    PROBE_TRY(write(ends[1], probe_sabotaged("data") ? "xx" : "ok", 2));
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(pipe(ends));
    do {
        pthread_t thread;
        char got[4] = "";
        PROBE_ZERO(pthread_create(&thread, NULL, protocol, NULL));
        probe_equal("read of the main thread", 2, read(ends[0], got, sizeof got));
        probe_equal_text("data read", "ok", got);
        PROBE_ZERO(pthread_join(thread, NULL));
    } while (probe_more());
    return probe_pass();
}
