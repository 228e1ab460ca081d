// SPDX-License-Identifier: Apache-2.0
// System V shared memory, semaphores and messages between two processes.
#include "probe.h"

#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

struct message {
    long type;
    char text[8];
};

static int segment, semaphores, queue;
static volatile int *shared;

static void child(void)
{
    probe_await_check();
    PROBE_TRY(semop(semaphores, &(struct sembuf){.sem_num = 1, .sem_op = -3}, 1));
    struct message message;
    probe_equal("size of a message", 8, msgrcv(queue, &message, 8, 2, 0));
    probe_equal_text("message of type 2", "second", message.text);
    *shared += 1;
}

static void remove_objects(void)
{
    shmctl(segment, IPC_RMID, NULL);
    semctl(semaphores, 0, IPC_RMID);
    msgctl(queue, IPC_RMID, NULL);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    segment = PROBE_TRY(shmget(IPC_PRIVATE, 8192, 0600));
    semaphores = PROBE_TRY(semget(IPC_PRIVATE, 2, 0600));
    queue = PROBE_TRY(msgget(IPC_PRIVATE, 0600));
    atexit(remove_objects);
    shared = PROBE_MAP(shmat(segment, NULL, 0));
    PROBE_TRY(shmctl(segment, IPC_RMID, NULL)); // it lives on while it is attached
    do {
        const struct message first = {.type = 1, .text = "first"};
        const struct message second = {.type = 2, .text = "second"};
        *shared = 99;
        PROBE_TRY(msgsnd(queue, &first, 8, 0));
        PROBE_TRY(msgsnd(queue, &second, 8, 0));
        PROBE_TRY(semctl(semaphores, 0, SETVAL, 7));
        PROBE_TRY(semctl(semaphores, 1, SETVAL, 3));
        const pid_t member = probe_fork(child);
        probe_ready();
        PROBE_SABOTAGE("value", *shared = 0);
        probe_equal("value of semaphore 0", 7, semctl(semaphores, 0, GETVAL));
        probe_reap("child", member);
        probe_equal("value of semaphore 1", 0, semctl(semaphores, 1, GETVAL));
        const int found = *shared;
        struct message left;
        const ssize_t size = msgrcv(queue, &left, 8, 0, IPC_NOWAIT);
        if (found != 100) {
            remove_objects(); // a failure ends the program without atexit
        }
        probe_equal("value in shared memory", 100, found);
        probe_equal("size of the message left", 8, size);
        probe_equal("type of the message left", 1, left.type);
    } while (probe_more());
    return probe_pass();
}
