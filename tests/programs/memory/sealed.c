// SPDX-License-Identifier: Apache-2.0
// Memory sealed by mseal(2) can be neither unmapped nor given another protection.
#include "probe.h"

enum { SIZE = 4 * 4096, MSEAL = 462 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *memory =
        PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    probe_fill(memory, SIZE, 1);
    PROBE_TRY(mprotect(memory, SIZE, PROT_READ));
    PROBE_TRY(syscall(MSEAL, memory, SIZE, 0));
    do {
        probe_ready();
        void *target = memory;
        PROBE_SABOTAGE("unmapping", target = PROBE_MAP(mmap(NULL, SIZE, PROT_READ,
                                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
        probe_equal("result of unmapping", -1, munmap(target, SIZE));
        probe_equal("result of giving other rights", -1, mprotect(memory, SIZE, PROT_WRITE));
        probe_filled("contents", memory, SIZE, 1);
    } while (probe_more());
    return probe_pass();
}
