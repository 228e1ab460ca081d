// SPDX-License-Identifier: Apache-2.0
// Pages of hugetlb: contents, and they are still huge.
#include "probe.h"

enum { SIZE = 2 * 2 * 1024 * 1024 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *memory =
        mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (memory == MAP_FAILED) {
        probe_lacks("two free huge pages");
    }
    probe_fill(memory, SIZE, 1);
    do {
        probe_ready();
        PROBE_SABOTAGE("contents", memory[SIZE - 1] ^= 1);
        probe_filled("contents of huge pages", memory, SIZE, 1);
        // Only a huge mapping refuses to be split inside a huge page.
        probe_equal("cutting inside a huge page", -1, munmap(memory + 4096, 4096));
    } while (probe_more());
    return probe_pass();
}
