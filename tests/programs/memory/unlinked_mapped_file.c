// SPDX-License-Identifier: Apache-2.0
// A shared mapping of an unlinked file whose descriptor is closed.
#include "probe.h"

enum { SIZE = 8 * 4096 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(ftruncate(fd, SIZE));
    unsigned char *shared = PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    unsigned char *private =
        PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    PROBE_TRY(unlink(probe_path("file")));
    PROBE_TRY(close(fd));
    probe_fill(shared, SIZE, 4);
    private[0] = 0;
    do {
        probe_ready();
        PROBE_SABOTAGE("shared", shared[4096] ^= 1);
        PROBE_SABOTAGE("private", private[0] = 1);
        probe_filled("shared mapping", shared, SIZE, 4);
        probe_equal("private page that was modified", 0, private[0]);
        probe_equal("private page that was not", probe_byte(4, 5000), private[5000]);
    } while (probe_more());
    return probe_pass();
}
