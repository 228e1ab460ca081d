// SPDX-License-Identifier: Apache-2.0
// Time from the vdso: gettimeofday, clock_gettime and getcpu work and agree with the kernel's.
#include "probe.h"

#include <sched.h>
#include <sys/auxv.h>
#include <sys/time.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const unsigned char *vdso = (const unsigned char *)getauxval(AT_SYSINFO_EHDR);
    probe_true("a vdso at the start", vdso != NULL);
    do {
        probe_ready();
        PROBE_SABOTAGE("vdso", vdso += 4096);
        probe_equal_bytes("vdso image", "\177ELF", vdso, 4);
        for (int clock = CLOCK_REALTIME; clock <= CLOCK_MONOTONIC; clock++) {
            struct timespec before, between, after;
            PROBE_TRY(syscall(SYS_clock_gettime, clock, &before));
            PROBE_TRY(clock_gettime(clock, &between));
            PROBE_TRY(syscall(SYS_clock_gettime, clock, &after));
            probe_within("seconds of the vdso clock", before.tv_sec, after.tv_sec, between.tv_sec);
        }
        struct timeval now;
        struct timespec earlier, real;
        PROBE_TRY(syscall(SYS_clock_gettime, CLOCK_REALTIME, &earlier));
        PROBE_TRY(gettimeofday(&now, NULL));
        PROBE_TRY(syscall(SYS_clock_gettime, CLOCK_REALTIME, &real));
        probe_within("seconds of gettimeofday", earlier.tv_sec, real.tv_sec, now.tv_sec);
        probe_within("cpu", 0, 4096, sched_getcpu());
        /* time() reads the clock of the last tick: it may be a little behind the precise one. */
        const time_t coarse = time(NULL);
        PROBE_TRY(syscall(SYS_clock_gettime, CLOCK_REALTIME, &real));
        probe_within("seconds of time()", now.tv_sec - 1, real.tv_sec, coarse);
    } while (probe_more());
    return probe_pass();
}
