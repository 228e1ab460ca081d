// SPDX-License-Identifier: Apache-2.0
// Each thread's registrations with the kernel: robust list, clear-child-tid (join works), rseq (its
// cpu number is kept up to date), and thread ids that agree everywhere.
#include "probe.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/rseq.h>

static volatile int ready, check;

static void registered(const char *who)
{
    void *head = NULL;
    size_t size = 0;
    int *tid_address = NULL;
    char what[80];
    const pid_t tid = (pid_t)syscall(SYS_gettid);

    PROBE_TRY(syscall(SYS_get_robust_list, 0, &head, &size));
    snprintf(what, sizeof what, "robust list of %s", who);
    PROBE_SABOTAGE("robust list", head = NULL);
    probe_true(what, head != NULL && *(void **)head != NULL);

    snprintf(what, sizeof what, "clear-child-tid of %s", who);
    if (prctl(PR_GET_TID_ADDRESS, &tid_address) == 0) {
        PROBE_SABOTAGE("clear-child-tid", tid_address = &(int){0});
        probe_equal(what, tid, tid_address != NULL ? *tid_address : 0);
    }

    if (__rseq_size != 0) {
        const struct rseq *area =
            (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
        const volatile uint32_t *cpu = &area->cpu_id;
        snprintf(what, sizeof what, "cpu number in the rseq area of %s", who);
        probe_within(what, 0, CPU_SETSIZE, (int)*cpu);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(*cpu, &one);
        PROBE_TRY(sched_setaffinity(0, sizeof one, &one));
        probe_equal(what, sched_getcpu(), *cpu);
    }
    probe_equal("thread id by gettid(2) and the library", tid, gettid());
    probe_equal("pthread_kill to itself", 0, pthread_kill(pthread_self(), 0));
    probe_equal("tgkill to itself", 0, tgkill(getpid(), tid, 0));
}

static void *worker(void *unused)
{
    ready = 1;
    probe_await("check", &check);
    registered("the thread");
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        pthread_t thread;
        ready = check = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, worker, NULL));
        probe_await("thread", &ready);
        probe_ready();
        registered("main");
        check = 1;
        PROBE_ZERO(pthread_join(thread, NULL)); // relies on its clear-child-tid
    } while (probe_more());
    return probe_pass();
}
