// SPDX-License-Identifier: Apache-2.0
// The functions that the loader chose for this CPU (memcpy, strlen …) still work, for every length.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    static char from[5000], to[5000];
    do {
        probe_fill(from, sizeof from, probe_cycle());
        probe_ready();
        for (size_t size = 0; size < 4500; size = size < 300 ? size + 1 : size * 5 / 4) {
            memset(to, 0, sizeof to);
            memcpy(to + 3, from, size);
            PROBE_SABOTAGE("copy", to[3] = 0);
            probe_equal_bytes("copy", from, to + 3, size);
            probe_equal("length", (long long)size, (long long)strlen(to + 3));
            probe_true("memchr", memchr(to + 3, 0, sizeof to - 3) == to + 3 + size);
        }
    } while (probe_more());
    return probe_pass();
}
