// SPDX-License-Identifier: Apache-2.0
// Constructors of libraries run once in a program's life, and not again at a restart.
#include "probe.h"

extern int constructed;

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        struct stat traces;
        probe_ready();
        PROBE_SABOTAGE("constructed", constructed++);
        PROBE_SABOTAGE("traces", truncate(probe_path("constructed"), 2));
        probe_equal("times constructed", 1, constructed);
        PROBE_TRY(stat(probe_path("constructed"), &traces));
        probe_equal("traces of constructors", 1, traces.st_size);
    } while (probe_more());
    return probe_pass();
}
