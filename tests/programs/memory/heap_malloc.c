// SPDX-License-Identifier: Apache-2.0
// malloc: ten thousand blocks of all sizes, freed and made in between; the allocator still works.
#include "probe.h"

enum { COUNT = 10000, LARGEST = 300000 };

static unsigned char *blocks[COUNT];
static size_t sizes[COUNT];

static void replace(unsigned i, unsigned long *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    free(blocks[i]);
    sizes[i] = (*state >> 40) % (i % 500 == 0 ? LARGEST : 400) + 1;
    blocks[i] = PROBE_MAP(malloc(sizes[i]));
    probe_fill(blocks[i], sizes[i], i);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned long state = probe_seed();
    for (unsigned i = 0; i < COUNT; i++) {
        replace(i, &state);
    }
    do {
        for (unsigned i = 0; i < COUNT; i += 3) {
            replace(i, &state);
        }
        probe_ready();
        PROBE_SABOTAGE("block", blocks[500][0] ^= 2);
        for (unsigned i = 0; i < COUNT; i++) {
            probe_filled("block on the heap", blocks[i], sizes[i], i);
        }
    } while (probe_more());
    return probe_pass();
}
