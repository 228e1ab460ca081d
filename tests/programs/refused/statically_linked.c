// SPDX-License-Identifier: Apache-2.0
// A program without a dynamic loader: no library can be loaded into it.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int *counter = PROBE_MAP(calloc(1, sizeof *counter));
    do {
        ++*counter;
        probe_ready();
        PROBE_SABOTAGE("counter", ++*counter);
        probe_equal("counter", probe_cycle(), *counter);
    } while (probe_more());
    return probe_pass();
}
