// SPDX-License-Identifier: Apache-2.0
// open(2) of a FIFO whose other end is not open.
#include "probe.h"

static long call(void *path)
{
    const int fd = open(path, O_RDONLY);
    char byte = 0;
    if (fd < 0 || read(fd, &byte, 1) != 1) {
        return -1;
    }
    close(fd);
    return byte;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(mkfifo(probe_path("fifo"), 0600));
    do {
        struct probe_sleeper sleeper;
        char path[4096];
        snprintf(path, sizeof path, "%s", probe_path("fifo"));
        probe_sleep_in(&sleeper, SYS_openat, call, path);
        probe_ready();
        probe_still_asleep("open of the fifo", &sleeper);
        int writer = PROBE_TRY(open(path, O_WRONLY));
        PROBE_TRY(write(writer, probe_sabotaged("byte") ? "x" : "f", 1));
        probe_woken("byte through the fifo", &sleeper, 'f', 0);
        close(writer);
    } while (probe_more());
    return probe_pass();
}
