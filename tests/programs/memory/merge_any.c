// SPDX-License-Identifier: Apache-2.0
// prctl(PR_SET_MEMORY_MERGE): all memory, even if mapped later, may be merged with equal pages.
#include "probe.h"
#include <sys/prctl.h>

enum { SET = 67, GET = 68 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(prctl(SET, 1, 0, 0, 0));
    do {
        probe_ready();
        PROBE_SABOTAGE("merged", prctl(SET, 0, 0, 0, 0));
        probe_equal("memory is merged", 1, prctl(GET, 0, 0, 0, 0));
    } while (probe_more());
    return probe_pass();
}
