// SPDX-License-Identifier: Apache-2.0
// Twenty thousand mappings, none merged because neighbours have different protections.
#include "probe.h"

enum { PAGE = 4096, COUNT = 20000 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *memory =
        PROBE_MAP(mmap(NULL, (size_t)COUNT * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (unsigned i = 0; i < COUNT; i += 2) {
        PROBE_TRY(mprotect(memory + (size_t)i * PAGE, PAGE, PROT_READ | PROT_WRITE));
        memory[(size_t)i * PAGE] = probe_byte(7, i);
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("page", memory[1000 * PAGE] ^= 1);
        for (unsigned i = 0; i < COUNT; i++) {
            probe_equal("page of many mappings", i % 2 == 0 ? probe_byte(7, i) : 0,
                        memory[(size_t)i * PAGE]);
        }
    } while (probe_more());
    return probe_pass();
}
