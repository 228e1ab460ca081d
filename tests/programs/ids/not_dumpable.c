// SPDX-License-Identifier: Apache-2.0
// A process that forbids inspection by others: root's comes back so, and others are refused.
#include "probe.h"

#include <sys/prctl.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(prctl(PR_SET_DUMPABLE, 0));
    do {
        probe_ready();
        PROBE_SABOTAGE("dumpable", prctl(PR_SET_DUMPABLE, 1));
        probe_equal("dumpable", 0, prctl(PR_GET_DUMPABLE));
    } while (probe_more());
    return probe_pass();
}
