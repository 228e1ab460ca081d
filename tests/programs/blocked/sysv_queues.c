// SPDX-License-Identifier: Apache-2.0
// msgrcv(2), semop(2) and semtimedop(2) on private System V objects.
#include "probe.h"

#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

static int queue, semaphore;

static long call_receive(void *unused)
{
    (void)unused;
    struct {
        long type;
        char text[8];
    } message;
    return msgrcv(queue, &message, sizeof message.text, 0, 0);
}

static long call_wait(void *unused)
{
    (void)unused;
    return semtimedop(semaphore, &(struct sembuf){.sem_op = -1}, 1, NULL);
}

static long call_timed(void *unused)
{
    (void)unused;
    const struct timespec day = {.tv_sec = 86400};
    return semtimedop(semaphore, &(struct sembuf){.sem_num = 1, .sem_op = -1}, 1, &day);
}

static void remove_objects(void)
{
    msgctl(queue, IPC_RMID, NULL);
    semctl(semaphore, 0, IPC_RMID);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    queue = PROBE_TRY(msgget(IPC_PRIVATE, 0600));
    semaphore = PROBE_TRY(semget(IPC_PRIVATE, 2, 0600));
    atexit(remove_objects);
    do {
        struct probe_sleeper receiving, waiting, timed;
        probe_sleep_in(&receiving, SYS_msgrcv, call_receive, NULL);
        probe_sleep_in(&waiting, SYS_semtimedop, call_wait, NULL);
        probe_sleep_in(&timed, SYS_semtimedop, call_timed, NULL);
        probe_ready();
        PROBE_SABOTAGE("semop", semop(semaphore, &(struct sembuf){.sem_op = 1}, 1);
                       probe_await("end", &waiting.done));
        if (probe_sabotaged("semop")) {
            remove_objects(); // a failure ends the program without atexit
        }
        probe_still_asleep("semop", &waiting);
        probe_still_asleep("semtimedop", &timed);
        probe_still_asleep("msgrcv", &receiving);
        const struct {
            long type;
            char text[8];
        } message = {.type = 1, .text = "hello"};
        PROBE_TRY(msgsnd(queue, &message, 6, 0));
        PROBE_TRY(semop(semaphore, &(struct sembuf){.sem_op = 1}, 1));
        PROBE_TRY(semop(semaphore, &(struct sembuf){.sem_num = 1, .sem_op = 1}, 1));
        probe_woken("semtimedop", &timed, 0, 0);
        probe_woken("msgrcv", &receiving, 6, 0);
        probe_woken("semop", &waiting, 0, 0);
    } while (probe_more());
    return probe_pass();
}
