// SPDX-License-Identifier: Apache-2.0
// Deep recursion whose frames stay intact, and a stack that still grows afterwards.
#include "probe.h"

static volatile unsigned sum;

static void descend(unsigned depth, void (*at_bottom)(void))
{
    unsigned char frame[1000];
    probe_fill(frame, sizeof frame, depth);
    if (depth > 0) {
        descend(depth - 1, at_bottom);
    } else {
        at_bottom();
    }
    probe_filled("stack frame", frame, sizeof frame, depth);
    sum += frame[0];
}

static void nothing(void) {}

static void saved_here(void)
{
    unsigned char *above = __builtin_frame_address(0);
    probe_ready();
    PROBE_SABOTAGE("stack frame", memset(above + 3000, 0, 500));
    descend(4000, nothing);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        descend(1500, saved_here);
        descend(6000, nothing);
    } while (probe_more());
    return probe_pass();
}
