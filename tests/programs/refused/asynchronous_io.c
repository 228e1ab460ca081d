// SPDX-License-Identifier: Apache-2.0
// A context of asynchronous I/O: its kernel side has no descriptor.
#include "probe.h"

#include <linux/aio_abi.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, 4, &context) != 0) {
        probe_lacks("io_setup");
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("context", syscall(SYS_io_destroy, context));
        probe_equal("events of the context", 0,
                    syscall(SYS_io_getevents, context, 0, 1, NULL, NULL));
    } while (probe_more());
    return probe_pass();
}
