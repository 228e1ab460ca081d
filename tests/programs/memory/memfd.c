// SPDX-License-Identifier: Apache-2.0
// memfd: contents, offset, mapping, and seals that are still enforced.
#include "probe.h"

enum { SIZE = 5 * 4096 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = PROBE_TRY(memfd_create("plain", MFD_CLOEXEC));
    int sealed = PROBE_TRY(memfd_create("sealed", MFD_ALLOW_SEALING));
    static unsigned char content[SIZE], found[SIZE];
    probe_fill(content, SIZE, 1);
    PROBE_TRY(write(fd, content, SIZE));
    PROBE_TRY(write(sealed, "sealed", 6));
    PROBE_TRY(lseek(fd, 99, SEEK_SET));
    unsigned char *mapped = PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    PROBE_TRY(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK));
    do {
        probe_ready();
        PROBE_SABOTAGE("contents", mapped[4] ^= 1);
        PROBE_SABOTAGE("seals", dup2(fd, sealed));
        probe_equal("bytes of the memfd", SIZE, pread(fd, found, SIZE, 0));
        probe_filled("contents of the memfd", found, SIZE, 1);
        probe_equal("offset in it", 99, lseek(fd, 0, SEEK_CUR));
        mapped[0] ^= 0x80;
        probe_equal("byte read", 1, pread(fd, found, 1, 0));
        probe_equal("byte written through the mapping", mapped[0], found[0]);
        mapped[0] ^= 0x80;
        probe_equal("seals", F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK,
                    fcntl(sealed, F_GET_SEALS));
        probe_equal("write to the sealed one", -1, pwrite(sealed, "x", 1, 0));
        char text[8] = "";
        PROBE_TRY(pread(sealed, text, 6, 0));
        probe_equal_text("contents of the sealed one", "sealed", text);
    } while (probe_more());
    return probe_pass();
}
