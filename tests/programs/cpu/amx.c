// SPDX-License-Identifier: Apache-2.0
// AMX: the tiles of a thread that has requested them.
#include "probe.h"

#include <asm/prctl.h>

enum { ARCH_REQUEST_TILES = 0x1023, TILE_DATA = 18 };

static volatile int holding, released;
static unsigned char loaded[1024], found[1024];
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} configuration = {.palette = 1, .row_bytes = {64}, .rows = {16}};

static void *hold(void *unused)
{
    __asm__ volatile("ldtilecfg %[configuration]\n"
                     "tileloadd (%[in],%[stride]), %%tmm0\n"
                     "movl $1, %[holding]\n"
                     "1: pause\n"
                     "cmpl $0, %[released]\n"
                     "je 1b\n"
                     "tilestored %%tmm0, (%[out],%[stride])\n"
                     "tilerelease\n"
                     : [holding] "=m"(holding)
                     : [released] "m"(released), [configuration] "m"(configuration),
                       [in] "r"(loaded), [out] "r"(found), [stride] "r"(64ul)
                     : "memory");
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    if (syscall(SYS_arch_prctl, ARCH_REQUEST_TILES, TILE_DATA) != 0) {
        probe_lacks("AMX tiles");
    }
    probe_fill(loaded, sizeof loaded, 1);
    do {
        pthread_t thread;
        holding = released = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, hold, NULL));
        probe_await("tile", &holding);
        probe_ready();
        released = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
        PROBE_SABOTAGE("tile", found[1000] ^= 1);
        probe_equal_bytes("tile", loaded, found, sizeof loaded);
    } while (probe_more());
    return probe_pass();
}
