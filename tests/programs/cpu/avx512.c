// SPDX-License-Identifier: Apache-2.0
// zmm0 to zmm31 and the masks k1 to k7 of a thread that is computing.
#include "probe.h"

static volatile int holding, released;
static unsigned char loaded[32][64], found[32][64];
static uint16_t loaded_masks[8], found_masks[8];

static void *hold(void *unused)
{
#define MASKS(do)                                                                                  \
    do                                                                                             \
    (1) do(2) do(3) do(4) do(5) do(6) do(7)
#define EACH(do)                                                                                                   \
    do                                                                                                             \
    (0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11) do(12) do(13) do(14) do(15) do(16) do( \
        17) do(18) do(19) do(20) do(21) do(22) do(23) do(24) do(25) do(26) do(27) do(28) do(29) do(30) do(31)
#define LOAD(i) "vmovups " #i "*64(%[in]), %%zmm" #i "\n"
#define STORE(i) "vmovups %%zmm" #i ", " #i "*64(%[out])\n"
#define LOAD_MASK(i) "kmovw " #i "*2(%[masks_in]), %%k" #i "\n"
#define STORE_MASK(i) "kmovw %%k" #i ", " #i "*2(%[masks_out])\n"
    __asm__ volatile(EACH(LOAD) MASKS(LOAD_MASK) "movl $1, %[holding]\n"
                                                 "1: pause\n"
                                                 "cmpl $0, %[released]\n"
                                                 "je 1b\n" EACH(STORE)
                                                     MASKS(STORE_MASK) "vzeroupper\n"
                     : [holding] "=m"(holding)
                     : [released] "m"(released), [in] "r"(loaded), [out] "r"(found),
                       [masks_in] "r"(loaded_masks), [masks_out] "r"(found_masks)
                     : "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    if (!__builtin_cpu_supports("avx512f")) {
        probe_lacks("AVX-512");
    }
    probe_fill(loaded, sizeof loaded, 1);
    probe_fill(loaded_masks, sizeof loaded_masks, 2);
    do {
        pthread_t thread;
        holding = released = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, hold, NULL));
        probe_await("zmm registers", &holding);
        probe_ready();
        released = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
        PROBE_SABOTAGE("zmm", found[31][63] ^= 1);
        PROBE_SABOTAGE("mask", found_masks[7] ^= 1);
        probe_equal_bytes("zmm registers", loaded, found, sizeof loaded);
        probe_equal_bytes("mask registers", loaded_masks + 1, found_masks + 1,
                          7 * sizeof found_masks[0]);
    } while (probe_more());
    return probe_pass();
}
