// SPDX-License-Identifier: Apache-2.0
// /dev/tty of a process that has no controlling terminal, and isatty of plain files.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(setsid() == -1 && errno != EPERM ? -1 : 0);
    int file = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    probe_equal("controlling terminal at the start", -1, open("/dev/tty", O_RDWR));
    do {
        probe_ready();
        PROBE_SABOTAGE("terminal", dup2(PROBE_TRY(posix_openpt(O_RDWR | O_NOCTTY)), file));
        probe_equal("file is a terminal", 0, isatty(file));
        probe_equal("controlling terminal", -1, open("/dev/tty", O_RDWR));
        probe_equal("errno of it", ENXIO, errno);
    } while (probe_more());
    return probe_pass();
}
