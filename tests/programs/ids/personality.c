// SPDX-License-Identifier: Apache-2.0
// The execution domain: no address randomisation and read-implies-exec are still set.
#include "probe.h"

#include <sys/personality.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(personality(PER_LINUX | ADDR_NO_RANDOMIZE | STICKY_TIMEOUTS));
    do {
        probe_ready();
        PROBE_SABOTAGE("personality", personality(PER_LINUX));
        probe_equal("personality", PER_LINUX | ADDR_NO_RANDOMIZE | STICKY_TIMEOUTS,
                    personality(0xffffffff));
    } while (probe_more());
    return probe_pass();
}
