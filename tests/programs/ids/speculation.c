// SPDX-License-Identifier: Apache-2.0
// Speculation that a program has switched off for itself (PR_SET_SPECULATION_CTRL).
#include "probe.h"

#include <sys/prctl.h>

static int state(void)
{
    return (int)PROBE_TRY(prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0));
}

static int set(unsigned long value)
{
    return prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, value, 0, 0);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    if (set(PR_SPEC_DISABLE) != 0) {
        probe_lacks("speculation control");
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("store bypass", set(PR_SPEC_ENABLE));
        probe_equal("store bypass", PR_SPEC_PRCTL | PR_SPEC_DISABLE, state());
    } while (probe_more());
    return probe_pass();
}
