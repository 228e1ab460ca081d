// SPDX-License-Identifier: Apache-2.0
// A sparse file of 1 GiB with two islands: contents, size, and it stays sparse.
#include "probe.h"

#define SIZE (1L << 30)

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = PROBE_TRY(open(probe_path("sparse"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(pwrite(fd, "near", 4, 1L << 20));
    PROBE_TRY(pwrite(fd, "far", 3, SIZE - 3));
    PROBE_TRY(unlink(probe_path("sparse"))); // so that its contents have to be saved
    do {
        probe_ready();
        PROBE_SABOTAGE("island", pwrite(fd, "fear", 4, SIZE - 4));
        struct stat seen;
        PROBE_TRY(fstat(fd, &seen));
        probe_equal("size", SIZE, seen.st_size);
        probe_within("blocks of the sparse file", 1, 1024, seen.st_blocks);
        char got[8] = "";
        pread(fd, got, 4, 1L << 20);
        probe_equal_text("near island", "near", got);
        memset(got, 0, sizeof got);
        pread(fd, got, 4, SIZE - 4);
        probe_equal_bytes("far island", "\0far", got, 4);
    } while (probe_more());
    return probe_pass();
}
