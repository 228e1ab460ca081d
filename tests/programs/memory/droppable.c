// SPDX-License-Identifier: Apache-2.0
// Memory that the kernel may drop (MAP_DROPPABLE): it stays so, and has its contents or none.
#include "probe.h"

enum { PAGE = 4096, COUNT = 16, DROPPABLE = 8 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *memory = PROBE_MAP(
        mmap(NULL, COUNT * PAGE, PROT_READ | PROT_WRITE, DROPPABLE | MAP_ANONYMOUS, -1, 0));
    probe_fill(memory, COUNT * PAGE, 1);
    do {
        probe_ready();
        PROBE_SABOTAGE("droppable",
                       memory = PROBE_MAP(mmap(memory, COUNT * PAGE, PROT_READ | PROT_WRITE,
                                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)));
        for (unsigned i = 0; i < COUNT; i++) {
            unsigned char page[PAGE] = {0};
            unsigned char expected[COUNT * PAGE];
            probe_fill(expected, sizeof(expected), 1);
            if (memcmp(memory + i * PAGE, page, PAGE) != 0) { // else it was dropped
                probe_equal_bytes("page", expected + i * PAGE, memory + i * PAGE, PAGE);
            }
        }
        // Only droppable memory refuses to be kept over a fork.
        probe_equal("result of keeping droppable memory on fork", -1,
                    madvise(memory, COUNT * PAGE, MADV_KEEPONFORK));
    } while (probe_more());
    return probe_pass();
}
