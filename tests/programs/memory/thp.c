// SPDX-License-Identifier: Apache-2.0
// Transparent huge pages: contents, also after one was split, and the advice stays; there are
// none in memory that is advised against them.
#include "sparse.h"

enum { HUGE = 2 * 1024 * 1024 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *memory = PROBE_MAP(aligned_alloc(HUGE, 4 * HUGE));
    PROBE_TRY(madvise(memory, 4 * HUGE, MADV_HUGEPAGE));
    probe_fill(memory, 4 * HUGE, 1);
    PROBE_TRY(mprotect(memory + HUGE + 4096, 4096, PROT_READ));
    PROBE_TRY(madvise(memory + 2 * HUGE + 8192, 4096, MADV_DONTNEED));
    unsigned char *sparse = sparse_new();
    PROBE_TRY(madvise(sparse, SPARSE_SIZE, MADV_NOHUGEPAGE));
    sparse_touch(sparse);
    do {
        probe_ready();
        PROBE_SABOTAGE("contents", memory[HUGE] ^= 1);
        PROBE_SABOTAGE("sparse memory", memset(sparse, 1, SPARSE_STEP));
        probe_filled("contents before the hole", memory, 2 * HUGE + 8192, 1);
        probe_equal("contents of the hole", 0, memory[2 * HUGE + 8192 + 5]);
        probe_equal("contents after the hole", probe_byte(1, 3 * HUGE), memory[3 * HUGE]);
        sparse_same("sparse memory", sparse);
    } while (probe_more());
    return probe_pass();
}
