// SPDX-License-Identifier: Apache-2.0
// Random numbers: rand's sequence continues, and getrandom gives fresh bytes in every copy.
#include "probe.h"

#include <sys/random.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    srandom((unsigned)probe_seed());
    char state[32];
    struct random_data own = {0};
    initstate_r((unsigned)probe_seed(), state, sizeof state, &own);
    unsigned char before[32], after[32];
    do {
        long next = random();
        int32_t next_own;
        random_r(&own, &next_own);
        PROBE_TRY(getrandom(before, sizeof before, 0));
        probe_ready();
        PROBE_SABOTAGE("sequence", random());
        // The undisturbed sequence, computed from the seed again.
        long again = 0;
        const long found = random();
        srandom((unsigned)probe_seed());
        for (unsigned i = 0; i < 2 * probe_cycle() - 1; i++) {
            again = random();
        }
        probe_equal("number of the sequence drawn before", again, next);
        probe_equal("next number of the sequence", random(), found);
        PROBE_TRY(getrandom(after, sizeof after, 0));
        probe_true("fresh bytes", memcmp(before, after, sizeof before) != 0);
        probe_true("any bytes", after[0] | after[1] | after[2] | after[3] | after[4]);
    } while (probe_more());
    return probe_pass();
}
