// SPDX-License-Identifier: Apache-2.0
// The heap made by brk: contents, and it continues to grow and shrink from where it was.
#include "probe.h"

enum { STEP = 256 * 1024 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *start = sbrk(0);
    size_t size = 0;
    do {
        probe_true("growing by brk", sbrk(STEP) == start + size);
        probe_fill(start + size, STEP, probe_cycle());
        size += STEP;
        probe_ready();
        PROBE_SABOTAGE("heap contents", start[100] ^= 1);
        PROBE_SABOTAGE("end of the heap", sbrk(-4096));
        probe_equal("end of the heap", (long long)(intptr_t)(start + size),
                    (long long)(intptr_t)sbrk(0));
        for (size_t i = 0; i < probe_cycle(); i++) {
            probe_filled("heap contents", start + i * STEP, STEP, (unsigned)i + 1);
        }
        probe_true("growing on by brk", sbrk(STEP) == start + size);
        probe_equal("fresh memory", 0, start[size + 5]);
        start[size + 5] = 1;
        probe_true("shrinking by brk", sbrk(-STEP) == start + size + STEP);
    } while (probe_more());
    return probe_pass();
}
