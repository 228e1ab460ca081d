// SPDX-License-Identifier: Apache-2.0
// A restartable-sequence area that is not the C library's: its address cannot be found out. Started
// with the library's own switched off.
#include "probe.h"

#include <sys/rseq.h>

static struct rseq area;

int main(int argc, char **argv)
{
    if (getenv("GLIBC_TUNABLES") == NULL) {
        setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
        execv("/proc/self/exe", argv);
    }
    probe_start(argc, argv);
    PROBE_TRY(syscall(SYS_rseq, &area, sizeof area, 0, RSEQ_SIG));
    do {
        probe_ready();
        PROBE_SABOTAGE("registration", syscall(SYS_rseq, &area, sizeof area, 1, RSEQ_SIG));
        probe_equal("registration: a second one", -1,
                    syscall(SYS_rseq, &area, sizeof area, 0, RSEQ_SIG));
    } while (probe_more());
    return probe_pass();
}
