// SPDX-License-Identifier: Apache-2.0
// Shared memory in which remap_file_pages has mapped one page everywhere: the contents of the
// others are in the kernel, mapped nowhere, and reappear by another such call.
#include "probe.h"

enum { PAGES = 50, SIZE = 4096 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *memory = PROBE_MAP(mmap(NULL, (size_t)PAGES * SIZE, PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    do {
        for (int page = 0; page < PAGES; page++) {
            probe_fill(memory + (size_t)page * SIZE, SIZE, (unsigned)page);
        }
        for (size_t page = 0; page < PAGES; page++) {
            PROBE_TRY(remap_file_pages(memory + page * SIZE, SIZE, 0, 0, 0));
        }
        probe_ready();
        for (size_t page = 0; page < PAGES; page++) {
            PROBE_TRY(remap_file_pages(memory + page * SIZE, SIZE, 0, page, 0));
        }
        PROBE_SABOTAGE("page", memory[10 * SIZE] ^= 1);
        for (int page = 0; page < PAGES; page++) {
            probe_filled("page", memory + (size_t)page * SIZE, SIZE, (unsigned)page);
        }
    } while (probe_more());
    return probe_pass();
}
