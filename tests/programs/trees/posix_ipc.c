// SPDX-License-Identifier: Apache-2.0
// POSIX shared memory, a message queue and a named semaphore between two processes, their names
// already removed.
#include "probe.h"

#include <mqueue.h>
#include <semaphore.h>

static volatile int *shared;
static mqd_t queue;
static sem_t *semaphore;

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
    do {
        *shared = 99;
        PROBE_TRY(mq_send(queue, "plain", 5, 1));
        PROBE_TRY(mq_send(queue, "urgent", 6, 9));
        PROBE_TRY(sem_post(semaphore));
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
    } while (probe_more());
    return probe_pass();
}
