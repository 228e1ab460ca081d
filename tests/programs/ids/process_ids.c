// SPDX-License-Identifier: Apache-2.0
// getpid, gettid and the ids of threads: the same as before, or, if the restart was allowed to give
// new ones, at least consistent everywhere.
#include "probe.h"

enum { COUNT = 3 };

static struct {
    pthread_t thread;
    volatile pid_t tid;
} workers[COUNT];

static volatile int ready, check;

static void *worker(void *argument)
{
    const size_t i = (size_t)(uintptr_t)argument;
    workers[i].tid = gettid();
    __atomic_add_fetch(&ready, 1, __ATOMIC_ACQ_REL);
    probe_await("check", &check);
    if (!probe_told("newids")) {
        probe_equal("thread id", workers[i].tid, gettid());
    }
    probe_equal("thread id of the kernel and the library", syscall(SYS_gettid), gettid());
    probe_equal("process id in a thread", syscall(SYS_getpid), getpid());
    return NULL;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    pid_t me = getpid();
    do {
        ready = check = 0;
        for (size_t i = 0; i < COUNT; i++) {
            PROBE_ZERO(pthread_create(&workers[i].thread, NULL, worker, (void *)(uintptr_t)i));
        }
        while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) != COUNT) {
            sched_yield();
        }
        probe_ready();
        PROBE_SABOTAGE("process id", me++);
        if (!probe_told("newids")) {
            probe_equal("process id", me, getpid());
        }
        me = getpid();
        probe_equal("process id by the system call", getpid(), syscall(SYS_getpid));
        probe_equal("thread id of main", getpid(), gettid());
        char link[32] = "", name[32];
        PROBE_TRY(readlink("/proc/self", link, sizeof link - 1));
        snprintf(name, sizeof name, "%d", getpid());
        probe_equal_text("process id in /proc", name, link);
        check = 1;
        for (size_t i = 0; i < COUNT; i++) {
            PROBE_ZERO(pthread_join(workers[i].thread, NULL));
        }
    } while (probe_more());
    return probe_pass();
}
