// SPDX-License-Identifier: Apache-2.0
// A file opened before a fork has one offset for both.
#include "probe.h"

static int file;

static void child(void)
{
    probe_await_check();
    PROBE_SABOTAGE("offset", file = open(probe_path("file"), O_RDWR));
    PROBE_TRY(lseek(file, 1000, SEEK_CUR));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    file = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    do {
        PROBE_TRY(lseek(file, 5, SEEK_SET));
        const pid_t member = probe_fork(child);
        probe_ready();
        probe_reap("child", member);
        probe_equal("offset after the child moved it", 1005, lseek(file, 0, SEEK_CUR));
    } while (probe_more());
    return probe_pass();
}
