// SPDX-License-Identifier: Apache-2.0
// A device whose state only its driver knows (/dev/fuse).
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = open("/dev/fuse", O_RDWR);
    if (fd < 0) {
        probe_lacks("/dev/fuse");
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("device", dup2(PROBE_TRY(open("/dev/null", O_RDWR)), fd));
        struct stat seen;
        PROBE_TRY(fstat(fd, &seen));
        probe_equal("number of the device", 10 * 256 + 229, (long long)seen.st_rdev);
    } while (probe_more());
    return probe_pass();
}
