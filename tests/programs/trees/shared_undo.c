// SPDX-License-Identifier: Apache-2.0
// A child with its parent's list of semaphore operations to be undone (CLONE_SYSVSEM): the end of
// one of them undoes nothing, and that of the last one what both have done.
#include "probe.h"

#include <sched.h>
#include <sys/sem.h>

enum { VALUE, READY, END_CHILD, CHILD_ENDED, END_PARENT, SEMAPHORES };

static int set;

static void operate(int number, int change, int flags)
{
    struct sembuf one = {(unsigned short)number, (short)change, (short)flags};
    PROBE_TRY(semop(set, &one, 1));
}

static int be_child(void *unused)
{
    (void)unused;
    operate(VALUE, -3, SEM_UNDO);
    operate(READY, 1, 0);
    operate(END_CHILD, -1, 0);
    return 0;
}

static void be_parent(void)
{
    static char stack[64 << 10] __attribute__((aligned(16)));
    operate(VALUE, -2, SEM_UNDO);
    const pid_t child =
        PROBE_TRY(clone(be_child, stack + sizeof stack, CLONE_SYSVSEM | SIGCHLD, NULL));
    probe_reap("the child", child);
    operate(CHILD_ENDED, 1, 0);
    operate(END_PARENT, -1, 0);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        unsigned short values[SEMAPHORES] = {[VALUE] = 10};
        set = PROBE_TRY(semget(IPC_PRIVATE, SEMAPHORES, 0600));
        PROBE_TRY(semctl(set, 0, SETALL, values));
        const pid_t parent = probe_fork_sleeping(be_parent, SYS_wait4);
        operate(READY, -1, 0);
        probe_ready();
        PROBE_SABOTAGE("undone", semctl(set, VALUE, SETVAL, 5));
        const int before = semctl(set, VALUE, GETVAL);
        operate(END_CHILD, 1, 0);
        operate(CHILD_ENDED, -1, 0);
        const int between = semctl(set, VALUE, GETVAL);
        operate(END_PARENT, 1, 0);
        probe_reap("the parent", parent);
        const int after = semctl(set, VALUE, GETVAL);
        semctl(set, 0, IPC_RMID);
        probe_equal("the value", 5, before);
        probe_equal("the value when one of two sharers has ended", 5, between);
        probe_equal("the value when all is undone", 10, after);
    } while (probe_more());
    return probe_pass();
}
