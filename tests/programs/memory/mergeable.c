// SPDX-License-Identifier: Apache-2.0
// Pages that may be merged with equal ones (MADV_MERGEABLE): contents, including equal pages.
#include "probe.h"

enum { PAGE = 4096, COUNT = 64 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *memory = PROBE_MAP(
        mmap(NULL, COUNT * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    PROBE_TRY(madvise(memory, COUNT * PAGE, MADV_MERGEABLE));
    for (unsigned i = 0; i < COUNT; i++) {
        probe_fill(memory + i * PAGE, PAGE, i % 2);
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("page", memory[11 * PAGE] ^= 1);
        for (unsigned i = 0; i < COUNT; i++) {
            probe_filled("mergeable page", memory + i * PAGE, PAGE, i % 2);
        }
        probe_true("smaps still says mergeable",
                   system("grep -q '^VmFlags:.* mg' /proc/$PPID/smaps") == 0);
    } while (probe_more());
    return probe_pass();
}
