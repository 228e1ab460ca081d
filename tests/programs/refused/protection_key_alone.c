// SPDX-License-Identifier: Apache-2.0
// A protection key without memory is not in /proc, and would be allocated a second time.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const long key = PROBE_TRY(syscall(SYS_pkey_alloc, 0, 0));
    do {
        probe_ready();
        PROBE_SABOTAGE("key", syscall(SYS_pkey_free, key));
        probe_equal("freeing the key", 0, syscall(SYS_pkey_free, key));
        probe_equal("the key again", key, syscall(SYS_pkey_alloc, 0, 0));
    } while (probe_more());
    return probe_pass();
}
