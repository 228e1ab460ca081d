// SPDX-License-Identifier: Apache-2.0
// mlockall(MCL_FUTURE | MCL_ONFAULT): memory that is mapped later is locked when it is touched.
#include "probe.h"

enum { SIZE = 16 * 4096 };

static long locked_kib(void)
{
    static char text[8192]; // static, so that reading maps no memory
    const int fd = PROBE_TRY(open("/proc/self/status", O_RDONLY | O_CLOEXEC));
    PROBE_TRY(read(fd, text, sizeof text - 1));
    close(fd);
    const char *at = strstr(text, "VmLck:");
    probe_true("VmLck", at != NULL);
    return atol(at + strlen("VmLck:"));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(mlockall(MCL_FUTURE | MCL_ONFAULT));
    do {
        probe_ready();
        PROBE_SABOTAGE("locked", munlockall());
        const long before = locked_kib();
        unsigned char *memory =
            PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        probe_equal("locked memory that was mapped later, KiB", SIZE / 1024, locked_kib() - before);
        unsigned char resident[SIZE / 4096];
        PROBE_TRY(mincore(memory, SIZE, resident));
        probe_equal("its residence before it is touched", 0, resident[0] & 1);
        PROBE_TRY(munmap(memory, SIZE));
    } while (probe_more());
    return probe_pass();
}
