// SPDX-License-Identifier: Apache-2.0
// Operations on System V semaphores that are undone when a process ends (SEM_UNDO): by several
// processes on one semaphore, by a thread, over the whole range, cleared by SETVAL, and before
// another program is executed. The end of one member wakes another that waits for its
// semaphore.
#include "probe.h"

#include <sys/ipc.h>
#include <sys/sem.h>

enum { LOCK, COUNT, HIGH, LOW, CLEARED, EXECUTED, READY, SEMAPHORES };

static int set;

static void operate(int number, int change, int flags)
{
    struct sembuf one = {(unsigned short)number, (short)change, (short)flags};
    PROBE_TRY(semop(set, &one, 1));
}

static void *operate_in_thread(void *unused)
{
    operate(COUNT, 5, SEM_UNDO);
    return unused;
}

static void wait_for_the_end(void)
{
    for (;;)
        pause();
}

// Holds the lock, has 5 to be undone twice, and 30000 to be given back.
static void first(void)
{
    pthread_t thread;
    operate(LOCK, -1, SEM_UNDO);
    operate(COUNT, 5, SEM_UNDO);
    PROBE_ZERO(pthread_create(&thread, NULL, operate_in_thread, NULL));
    PROBE_ZERO(pthread_join(thread, NULL));
    operate(HIGH, -30000, SEM_UNDO);
    operate(CLEARED, 3, SEM_UNDO);
    wait_for_the_end();
}

// Takes some of what the first one added; undoing its additions to LOW would go below zero.
static void second(void)
{
    operate(COUNT, -4, SEM_UNDO);
    operate(COUNT, 3, 0);
    operate(LOW, 32767, SEM_UNDO);
    operate(LOW, -32767, 0);
    operate(LOW, 1, SEM_UNDO);
    wait_for_the_end();
}

static void third(void)
{
    const struct timespec long_time = {1000, 0};
    struct sembuf lock = {LOCK, -1, SEM_UNDO};
    PROBE_TRY(semtimedop(set, &lock, 1, &long_time));
    operate(READY, 1, 0);
    wait_for_the_end();
}

// The executed program knows nothing of the set.
static void fourth(void)
{
    operate(EXECUTED, 7, SEM_UNDO);
    execl("/bin/sleep", "sleep", "1000", (char *)NULL);
    _exit(1);
}

struct values {
    int of[SEMAPHORES];
};

static struct values look(void)
{
    struct values found;
    for (int i = 0; i < SEMAPHORES; i++)
        found.of[i] = semctl(set, i, GETVAL);
    return found;
}

static void kill_member(pid_t member)
{
    kill(member, SIGKILL);
    waitpid(member, NULL, 0);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        unsigned short values[SEMAPHORES] = {[LOCK] = 1, [COUNT] = 2, [HIGH] = 32000};
        struct semid_ds status;
        set = PROBE_TRY(semget(IPC_PRIVATE, SEMAPHORES, 0600));
        PROBE_TRY(semctl(set, 0, SETALL, values));
        const pid_t one = probe_fork_sleeping(first, SYS_pause);
        const pid_t two = probe_fork_sleeping(second, SYS_pause);
        const pid_t three = probe_fork_sleeping(third, SYS_semtimedop);
        const pid_t four = probe_fork_sleeping(fourth, SYS_clock_nanosleep);
        PROBE_TRY(semctl(set, CLEARED, SETVAL, 8));
        probe_ready();

        PROBE_SABOTAGE("adds", semctl(set, COUNT, SETVAL, 11));
        const struct values before = look();
        const int changed_count = semctl(set, COUNT, GETPID);
        const int changed_high = semctl(set, HIGH, GETPID);
        PROBE_TRY(semctl(set, 0, IPC_STAT, &status));
        kill_member(one);
        operate(READY, -1, 0); // the third one has the lock
        const struct values without_first = look();
        kill_member(two);
        const struct values without_second = look();
        kill_member(three);
        kill_member(four);
        const struct values at_last = look();
        semctl(set, 0, IPC_RMID);

        const struct values expected = {{0, 11, 2000, 1, 8, 7, 0}};
        probe_equal_bytes("values of semaphores", &expected, &before, sizeof(before));
        probe_true("there was an operation", status.sem_otime != 0);
        const struct values after_one = {{0, 1, 32000, 1, 8, 7, 0}};
        probe_equal_bytes("what the end of the first adds", &after_one, &without_first,
                          sizeof(without_first));
        const struct values after_two = {{0, 5, 32000, 0, 8, 7, 0}};
        probe_equal_bytes("what the end of the second adds", &after_two, &without_second,
                          sizeof(without_second));
        const struct values after_three = {{1, 5, 32000, 0, 8, 0, 0}};
        probe_equal_bytes("what the ends of the others add", &after_three, &at_last,
                          sizeof(at_last));
        if (!probe_told("newids")) {
            probe_equal("who has changed a semaphore last", two, changed_count);
            probe_equal("who has changed another one last", one, changed_high);
        }
    } while (probe_more());
    return probe_pass();
}
