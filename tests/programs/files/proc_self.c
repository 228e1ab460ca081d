// SPDX-License-Identifier: Apache-2.0
// Files of /proc about the process itself refer to the restarted process.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = PROBE_TRY(open("/proc/self/stat", O_RDONLY));
    do {
        probe_ready();
        PROBE_SABOTAGE("stat", dup2(PROBE_TRY(open("/proc/1/stat", O_RDONLY)), fd));
        char text[64] = "";
        probe_true("stat can be read", pread(fd, text, sizeof text - 1, 0) > 0);
        probe_equal("pid in stat", getpid(), atoi(text));
    } while (probe_more());
    return probe_pass();
}
