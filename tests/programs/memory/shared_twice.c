// SPDX-License-Identifier: Apache-2.0
// Shared memory mapped at two addresses, one of them read-only, stays one object.
#include "probe.h"

enum { SIZE = 16 * 4096 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = PROBE_TRY(memfd_create("twice", 0));
    PROBE_TRY(ftruncate(fd, SIZE));
    unsigned char *writer = PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    const unsigned char *reader = PROBE_MAP(mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0));
    PROBE_TRY(close(fd));
    do {
        probe_fill(writer, SIZE, probe_cycle());
        probe_ready();
        PROBE_SABOTAGE("aliasing", mmap(writer, SIZE, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
        probe_filled("contents at the second address", reader, SIZE, probe_cycle());
        writer[5000] = 'a';
        probe_equal("aliasing of the two addresses", 'a', reader[5000]);
        writer[5000] = 'b';
        probe_equal("aliasing of the two addresses", 'b', reader[5000]);
    } while (probe_more());
    return probe_pass();
}
