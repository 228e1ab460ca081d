// SPDX-License-Identifier: Apache-2.0
// A /proc file about a process that is not saved: it may be gone at a restart, or be another one.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    char path[64], name[64] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", getppid());
    const int fd = PROBE_TRY(open(path, O_RDONLY | O_CLOEXEC));
    do {
        probe_ready();
        PROBE_SABOTAGE("file", dup2(PROBE_TRY(open("/dev/null", O_RDONLY)), fd));
        probe_true("file about the parent", pread(fd, name, sizeof name, 0) > 0 || errno == ESRCH);
    } while (probe_more());
    PROBE_TRY(close(fd));
    return probe_pass();
}
