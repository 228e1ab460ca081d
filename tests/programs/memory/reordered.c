// SPDX-License-Identifier: Apache-2.0
// Shared memory whose pages are mapped in a different order than in the object (remap_file_pages),
// one mapping for each: their order and contents.
#include "probe.h"

enum { PAGES = 200, SIZE = 4096 };

static unsigned char *memory;

static int place_of(int page, int cycle)
{
    return cycle % 2 != 0 ? PAGES - 1 - page : page * 7 % PAGES;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    memory = PROBE_MAP(mmap(NULL, (size_t)PAGES * SIZE, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    for (int page = 0; page < PAGES; page++) {
        probe_fill(memory + (size_t)page * SIZE, SIZE, (unsigned)page);
    }
    do {
        const int cycle = (int)probe_cycle();
        for (int page = 0; page < PAGES; page++) {
            PROBE_TRY(remap_file_pages(memory + (size_t)place_of(page, cycle) * SIZE, SIZE, 0,
                                       (size_t)page, 0));
        }
        probe_ready();
        PROBE_SABOTAGE("page", memory[place_of(100, cycle) * SIZE] ^= 1);
        for (int page = 0; page < PAGES; page++) {
            probe_filled("page", memory + (size_t)place_of(page, cycle) * SIZE, SIZE,
                         (unsigned)page);
        }
    } while (probe_more());
    return probe_pass();
}
