// SPDX-License-Identifier: Apache-2.0
// ymm0 to ymm15, with their upper halves, of a thread that is computing.
#include "probe.h"
#include "registers_each.h"

static volatile int holding, released;
static unsigned char loaded[16][32], found[16][32];

static void *hold(void *unused)
{
#define LOAD(i) "vmovups " #i "*32(%[in]), %%ymm" #i "\n"
#define STORE(i) "vmovups %%ymm" #i ", " #i "*32(%[out])\n"
    __asm__ volatile(EACH(LOAD) "movl $1, %[holding]\n"
                                "1: pause\n"
                                "cmpl $0, %[released]\n"
                                "je 1b\n" EACH(STORE) "vzeroupper\n"
                     : [holding] "=m"(holding)
                     : [released] "m"(released), [in] "r"(loaded), [out] "r"(found)
                     : "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    if (!__builtin_cpu_supports("avx")) {
        probe_lacks("AVX");
    }
    probe_fill(loaded, sizeof loaded, 1);
    do {
        pthread_t thread;
        holding = released = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, hold, NULL));
        probe_await("ymm registers", &holding);
        probe_ready();
        released = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
        PROBE_SABOTAGE("ymm", found[15][31] ^= 1);
        probe_equal_bytes("ymm registers", loaded, found, sizeof loaded);
    } while (probe_more());
    return probe_pass();
}
