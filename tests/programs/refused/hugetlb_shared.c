// SPDX-License-Identifier: Apache-2.0
// Shared pages of hugetlb.
#include "probe.h"

enum { SIZE = 2 * 1024 * 1024 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *memory =
        mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (memory == MAP_FAILED) {
        probe_lacks("a free huge page");
    }
    probe_fill(memory, SIZE, 1);
    do {
        probe_ready();
        PROBE_SABOTAGE("contents", memory[SIZE - 1] ^= 1);
        probe_filled("contents of huge pages", memory, SIZE, 1);
    } while (probe_more());
    return probe_pass();
}
