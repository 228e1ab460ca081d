// SPDX-License-Identifier: Apache-2.0
// POSIX shared memory, a message queue and a named semaphore between two processes, their names
// already removed; and a semaphore that still has its name.
#include "probe.h"

#include <mqueue.h>
#include <semaphore.h>

static volatile int *shared;
static mqd_t queue;
static sem_t *semaphore;
static char kept_file[64]; // of the semaphore that has its name, for shm_open

// What a process gets that opens the semaphore only now. In this one sem_open may answer with the
// mapping that the parent had.
static sem_t *open_afresh(void)
{
    int fd = PROBE_TRY(shm_open(kept_file, O_RDWR, 0));
    sem_t *opened =
        PROBE_MAP(mmap(NULL, sizeof *opened, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    PROBE_TRY(close(fd));
    return opened;
}

static void child(void)
{
    probe_await_check();
    char text[64] = "";
    unsigned priority = 0;
    PROBE_TRY(sem_wait(semaphore));
    probe_equal("size of the urgent message", 6, mq_receive(queue, text, sizeof text, &priority));
    probe_equal_text("urgent message", "urgent", text);
    probe_equal("its priority", 9, priority);
    *shared += 1;
    PROBE_TRY(sem_post(open_afresh()));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    char name[64];
    snprintf(name, sizeof name, "/probe.%d", getpid());
    int fd = PROBE_TRY(shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600));
    PROBE_TRY(ftruncate(fd, 4096));
    shared = PROBE_MAP(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    PROBE_TRY(shm_unlink(name));
    PROBE_TRY(close(fd));
    struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 64};
    queue = PROBE_TRY(mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attributes));
    PROBE_TRY(mq_unlink(name));
    semaphore = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    probe_true("sem_open", semaphore != SEM_FAILED);
    PROBE_TRY(sem_unlink(name));
    char kept_name[64];
    snprintf(kept_name, sizeof kept_name, "/probe.kept.%d", getpid());
    snprintf(kept_file, sizeof kept_file, "/sem.probe.kept.%d", getpid());
    sem_unlink(kept_name); // of a run that failed
    sem_t *kept = sem_open(kept_name, O_CREAT | O_EXCL, 0600, 0);
    probe_true("sem_open of a name that stays", kept != SEM_FAILED);
    do {
        *shared = 99;
        PROBE_TRY(mq_send(queue, "plain", 5, 1));
        PROBE_TRY(mq_send(queue, "urgent", 6, 9));
        PROBE_TRY(sem_post(semaphore));
        PROBE_TRY(sem_post(kept));
        const pid_t member = probe_fork(child);
        probe_ready();
        PROBE_SABOTAGE("value", *shared = 0);
        probe_reap("child", member);
        probe_equal("value in shared memory", 100, *shared);
        char text[64] = "";
        probe_equal("size of the plain message", 5, mq_receive(queue, text, sizeof text, NULL));
        probe_equal_text("plain message", "plain", text);
        int value = -1;
        PROBE_TRY(sem_getvalue(semaphore, &value));
        probe_equal("value of the semaphore", 0, value);
        PROBE_SABOTAGE("by its name", PROBE_TRY(sem_wait(kept)));
        PROBE_TRY(sem_getvalue(kept, &value));
        probe_equal("value of the semaphore that was posted by its name", 2, value);
        PROBE_TRY(sem_wait(kept));
        PROBE_TRY(sem_wait(kept));
    } while (probe_more());
    PROBE_TRY(sem_unlink(kept_name));
    return probe_pass();
}
