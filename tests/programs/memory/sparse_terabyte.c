// SPDX-License-Identifier: Apache-2.0
// 1 TiB of MAP_NORESERVE with ten touched pages: a small image, quickly made.
#include "probe.h"

#define SIZE (1UL << 40)

enum { TOUCHED = 10 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *memory = PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (size_t i = 0; i < TOUCHED; i++) {
        memory[i * (SIZE / TOUCHED)] = probe_byte(3, i);
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("touched page", memory[SIZE / TOUCHED * 9] ^= 1);
        for (size_t i = 0; i < TOUCHED; i++) {
            probe_equal("touched page", probe_byte(3, i), memory[i * (SIZE / TOUCHED)]);
            probe_equal("page between", 0, memory[i * (SIZE / TOUCHED) + SIZE / TOUCHED / 2]);
            PROBE_TRY(madvise(memory + (i * (SIZE / TOUCHED) + SIZE / TOUCHED / 2) / 4096 * 4096,
                              4096, MADV_DONTNEED));
        }
    } while (probe_more());
    return probe_pass();
}
