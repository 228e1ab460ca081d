// SPDX-License-Identifier: Apache-2.0
// A device whose node has been removed.
#include "probe.h"

#include <sys/sysmacros.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(mknod(probe_path("zero"), S_IFCHR | 0600, makedev(1, 5)));
    const int fd = PROBE_TRY(open(probe_path("zero"), O_RDWR));
    PROBE_TRY(unlink(probe_path("zero")));
    do {
        probe_ready();
        PROBE_SABOTAGE("device", dup2(PROBE_TRY(open("/dev/null", O_RDWR)), fd));
        char byte = 1;
        probe_equal("bytes of the device", 1, read(fd, &byte, 1));
        probe_equal("byte of the device", 0, byte);
    } while (probe_more());
    return probe_pass();
}
