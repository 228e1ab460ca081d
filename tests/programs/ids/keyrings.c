// SPDX-License-Identifier: Apache-2.0
// A key in the process-keyring, which a restored process does not have.
#include "probe.h"

#include <linux/keyctl.h>

static void add(const char *name)
{
    PROBE_TRY(syscall(SYS_add_key, "user", name, "secret", 6, KEY_SPEC_PROCESS_KEYRING));
}

static long keys(void)
{
    const long bytes = syscall(SYS_keyctl, KEYCTL_READ, KEY_SPEC_PROCESS_KEYRING, NULL, 0);
    return bytes < 0 ? 0 : bytes / (long)sizeof(int32_t);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    add("cryo");
    probe_equal("keys in the process-keyring", 1, keys());
    do {
        probe_ready();
        PROBE_SABOTAGE("process-keyring", (add("one more"), add("and another")));
        probe_within("keys in the process-keyring", 0, 1, keys());
    } while (probe_more());
    return probe_pass();
}
