// SPDX-License-Identifier: Apache-2.0
// An anonymous mapping grown and moved by mremap, and unmapped in part.
#include "probe.h"

enum { PAGE = 4096 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    size_t pages = 8;
    unsigned char *memory = PROBE_MAP(
        mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    probe_fill(memory, pages * PAGE, 1);
    do {
        probe_ready();
        PROBE_SABOTAGE("contents", memory[PAGE] ^= 1);
        probe_filled("contents of the mapping", memory, 8 * PAGE, 1);
        memory = PROBE_MAP(mremap(memory, pages * PAGE, 2 * pages * PAGE, MREMAP_MAYMOVE));
        probe_filled("contents after growing", memory, 8 * PAGE, 1);
        probe_equal("fresh memory", 0, memory[2 * pages * PAGE - 1]);
        pages *= 2;
        PROBE_TRY(munmap(memory + (pages - 1) * PAGE, PAGE));
        pages--;
    } while (probe_more());
    return probe_pass();
}
