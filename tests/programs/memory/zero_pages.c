// SPDX-License-Identifier: Apache-2.0
// Memory that was never written, written with zeros, or discarded: all of it reads as zero and is
// writable; also a page punched out of shared memory.
#include "probe.h"

enum { PAGE = 4096, COUNT = 256 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    static unsigned char zeros[PAGE];
    unsigned char *memory = PROBE_MAP(
        mmap(NULL, COUNT * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    unsigned char *shared = PROBE_MAP(
        mmap(NULL, COUNT * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    do {
        memset(shared, 's', COUNT * PAGE);
        PROBE_TRY(madvise(shared + 5 * PAGE, PAGE, MADV_REMOVE));
        for (unsigned i = 0; i < COUNT; i += 4) {
            probe_equal("page only read", 0, memory[i * PAGE]);
            memset(memory + (i + 1) * PAGE, 0, PAGE);
            memset(memory + (i + 2) * PAGE, 1, PAGE);
            PROBE_TRY(madvise(memory + (i + 2) * PAGE, PAGE, MADV_DONTNEED));
        }
        probe_ready();
        PROBE_SABOTAGE("zero", memory[7 * PAGE] = 1);
        PROBE_SABOTAGE("punched out", shared[5 * PAGE] = 1);
        for (unsigned i = 0; i < COUNT; i++) {
            probe_equal_bytes("page of zeros", zeros, memory + i * PAGE, PAGE);
        }
        probe_equal_bytes("page punched out", zeros, shared + 5 * PAGE, PAGE);
        probe_equal("page beside it", 's', shared[6 * PAGE]);
        memset(memory, 9, COUNT * PAGE);
        memset(memory, 0, COUNT * PAGE);
    } while (probe_more());
    return probe_pass();
}
