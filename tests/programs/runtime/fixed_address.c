// SPDX-License-Identifier: Apache-2.0
// A program that is not position-independent: code and data lie at their link addresses.
#include "probe.h"

static int data = 42;
static int zeroed[100000];

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int *allocated = PROBE_MAP(malloc(sizeof *allocated));
    *allocated = 7;
    do {
        data++;
        zeroed[99999]++;
        probe_ready();
        PROBE_SABOTAGE("data", data--);
        PROBE_SABOTAGE("bss", zeroed[99999]--);
        probe_within("address of data", 0x400000, 0x10000000, (long long)(intptr_t)&data);
        probe_equal("data", 42 + probe_cycle(), data);
        probe_equal("bss", probe_cycle(), zeroed[99999]);
        probe_equal("heap", 7, *allocated);
    } while (probe_more());
    return probe_pass();
}
