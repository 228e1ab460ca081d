// SPDX-License-Identifier: Apache-2.0
// Restartable-sequence areas that are not the C library's, of two threads. Started with the
// library's own switched off.
#include "probe.h"

#include <sched.h>
#include <sys/rseq.h>

static __thread struct rseq area;
static volatile int ready, check;

static void expect(const char *what)
{
    errno = 0;
    probe_equal(what, -1, syscall(SYS_rseq, &area, sizeof area, 0, RSEQ_SIG));
    probe_equal(what, EBUSY, errno); // of the area that is registered; another one: EINVAL
    cpu_set_t one;
    const uint32_t cpu = *(volatile uint32_t *)&area.cpu_id;
    probe_within("cpu number in the area", 0, CPU_SETSIZE, cpu);
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    PROBE_TRY(sched_setaffinity(0, sizeof one, &one));
    probe_equal("cpu number in the area", sched_getcpu(), *(volatile uint32_t *)&area.cpu_id);
}

static void *worker(void *unused)
{
    PROBE_TRY(syscall(SYS_rseq, &area, sizeof area, 0, RSEQ_SIG));
    ready = 1;
    probe_await("check", &check);
    expect("registration of the thread: a second one");
    return unused;
}

int main(int argc, char **argv)
{
    if (getenv("GLIBC_TUNABLES") == NULL) {
        setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
        execv("/proc/self/exe", argv);
    }
    probe_start(argc, argv);
    PROBE_TRY(syscall(SYS_rseq, &area, sizeof area, 0, RSEQ_SIG));
    do {
        pthread_t thread;
        ready = check = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, worker, NULL));
        probe_await("thread", &ready);
        probe_ready();
        PROBE_SABOTAGE("registration", syscall(SYS_rseq, &area, sizeof area, 1, RSEQ_SIG));
        expect("registration: a second one");
        check = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
    } while (probe_more());
    return probe_pass();
}
