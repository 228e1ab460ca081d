// SPDX-License-Identifier: Apache-2.0
// Registrations with membarrier(2); unregistered commands are refused.
#include "probe.h"

#include <linux/membarrier.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int registration = MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE;
    if (syscall(SYS_membarrier, registration, 0, 0) != 0) {
        probe_lacks("membarrier");
    }
    do {
        probe_ready();
        int command = MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE;
        PROBE_SABOTAGE("registration", command = MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ);
        probe_equal("registration: result of the barrier", 0,
                    syscall(SYS_membarrier, command, 0, 0));
    } while (probe_more());
    return probe_pass();
}
