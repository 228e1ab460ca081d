// SPDX-License-Identifier: Apache-2.0
// A program that has replaced the C library's restartable-sequence area by its own.
#include "probe.h"

#include <stddef.h>
#include <sys/rseq.h>

static struct rseq area;

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    char *library = (char *)__builtin_thread_pointer() + __rseq_offset;
    const unsigned size = __rseq_size < sizeof area ? sizeof area : __rseq_size;
    if (__rseq_size != 0) {
        PROBE_TRY(syscall(SYS_rseq, library, size, RSEQ_FLAG_UNREGISTER, RSEQ_SIG));
    }
    PROBE_TRY(syscall(SYS_rseq, &area, sizeof area, 0, RSEQ_SIG));
    do {
        probe_ready();
        PROBE_SABOTAGE("registration",
                       syscall(SYS_rseq, &area, sizeof area, RSEQ_FLAG_UNREGISTER, RSEQ_SIG));
        errno = 0;
        probe_equal("registration: a second one", -1,
                    syscall(SYS_rseq, &area, sizeof area, 0, RSEQ_SIG));
        probe_equal("error of a second registration", EBUSY, errno);
    } while (probe_more());
    return probe_pass();
}
