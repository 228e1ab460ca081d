// SPDX-License-Identifier: Apache-2.0
// A large unlinked file, shared by two open files, one of them append only.
#include "probe.h"

enum { PART = 1 << 20, PARTS = 48 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    static unsigned char part[PART];
    int fd = PROBE_TRY(open(probe_path("large"), O_CREAT | O_RDWR, 0600));
    int log = PROBE_TRY(open(probe_path("large"), O_WRONLY | O_APPEND));
    PROBE_TRY(unlink(probe_path("large")));
    for (unsigned i = 0; i < PARTS; i++) {
        probe_fill(part, PART, i);
        PROBE_TRY(write(fd, part, PART));
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("part", pwrite(fd, "\0\0", 2, 7 * PART + 3));
        PROBE_SABOTAGE("shared", dup2(PROBE_TRY(open("/dev/null", O_WRONLY)), log));
        for (unsigned i = 0; i < PARTS; i++) {
            probe_equal("bytes of a part", PART, pread(fd, part, PART, (off_t)i * PART));
            probe_filled("part of the large file", part, PART, i);
        }
        PROBE_TRY(write(log, "end", 3));
        char got[4] = "";
        probe_equal("bytes by the shared end", 3, pread(fd, got, 3, (off_t)PARTS * PART));
        probe_equal_text("shared end", "end", got);
        PROBE_TRY(ftruncate(fd, (off_t)PARTS * PART));
    } while (probe_more());
    return probe_pass();
}
