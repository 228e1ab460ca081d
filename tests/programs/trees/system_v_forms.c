// SPDX-License-Identifier: Apache-2.0
// Every state of a System V object: segments with and without a key, attached several times and in
// parts, not attached, removed; semaphores with values, waits and last changers; messages of all
// types and lengths, limits; and members that wait in each of them.
#include "probe.h"

#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

enum { PAGE = 4096, KEPT = 4 * PAGE + 100, LONG = 1000, LIMIT = 2000 };

struct message {
    long type;
    char text[LONG];
};

static key_t key;
static int kept, detached, removed, set, queue, full;
static char *view, *only_read, *partly, *without_id;

static bool writable(const void *at)
{
    const int zero = PROBE_TRY(open("/dev/zero", O_RDONLY));
    const bool can = read(zero, (void *)(uintptr_t)at, 1) == 1;
    close(zero);
    return can;
}

static void wait_for_value(void)
{
    PROBE_TRY(semtimedop(set, &(struct sembuf){.sem_num = 1, .sem_op = -2}, 1, NULL));
    view[100] = 1;
}

static void wait_for_message(void)
{
    PROBE_TRY(semop(set, &(struct sembuf){.sem_num = 3, .sem_op = -1}, 1));
    struct message got;
    const ssize_t size = PROBE_TRY(msgrcv(queue, &got, LONG, 7, 0));
    view[101] = (char)(size == 5 && memcmp(got.text, "seven", 5) == 0);
}

static void wait_for_room(void)
{
    const struct message sent = {.type = 9, .text = "the second mess"};
    PROBE_TRY(msgsnd(full, &sent, 16, 0));
    view[102] = 1;
}

static void make_objects(void)
{
    // After a restart to an earlier cycle, objects of a later one may exist and be in the way.
    key = (key_t)((probe_cycle() % 64 + 1) << 24 | ((unsigned)getpid() & 0xffffff));
    shmctl(shmget(key, 0, 0), IPC_RMID, NULL);
    semctl(semget(key, 0, 0), 0, IPC_RMID);
    msgctl(msgget(key, 0), IPC_RMID, NULL);
    kept = PROBE_TRY(shmget(key, KEPT, IPC_CREAT | IPC_EXCL | 0640));
    view = PROBE_MAP(shmat(kept, NULL, 0));
    only_read = PROBE_MAP(shmat(kept, NULL, SHM_RDONLY));
    partly = PROBE_MAP(shmat(kept, NULL, 0));
    probe_fill(view + PAGE, KEPT - PAGE, 1);
    PROBE_TRY(mprotect(view + PAGE, PAGE, PROT_READ));
    PROBE_TRY(munmap(partly + 2 * PAGE, PAGE));
    memset(view, 0, PAGE);

    detached = PROBE_TRY(shmget(IPC_PRIVATE, 2 * PAGE, 0600));
    char *at = PROBE_MAP(shmat(detached, NULL, 0));
    probe_fill(at, 2 * PAGE, 2);
    PROBE_TRY(shmdt(at));

    removed = PROBE_TRY(shmget(IPC_PRIVATE, 2 * PAGE, 0600));
    without_id = PROBE_MAP(shmat(removed, NULL, 0));
    PROBE_TRY(shmctl(removed, IPC_RMID, NULL));
    probe_fill(without_id, 2 * PAGE, 3);

    set = PROBE_TRY(semget(key, 4, IPC_CREAT | IPC_EXCL | 0600));
    unsigned short values[4] = {5, 0, 32767, 2};
    PROBE_TRY(semctl(set, 0, SETALL, values));

    queue = PROBE_TRY(msgget(key, IPC_CREAT | IPC_EXCL | 0600));
    full = PROBE_TRY(msgget(IPC_PRIVATE, 0600));
    struct message message = {.type = 3, .text = "three"};
    PROBE_TRY(msgsnd(queue, &message, 5, 0));
    message.type = 1;
    PROBE_TRY(msgsnd(queue, &message, 0, 0));
    message.type = 3;
    probe_fill(message.text, LONG, 4);
    PROBE_TRY(msgsnd(queue, &message, LONG, 0));
    struct msqid_ds status;
    PROBE_TRY(msgctl(queue, IPC_STAT, &status));
    status.msg_qbytes = LIMIT;
    PROBE_TRY(msgctl(queue, IPC_SET, &status));
    PROBE_TRY(msgctl(full, IPC_STAT, &status));
    status.msg_qbytes = 16;
    PROBE_TRY(msgctl(full, IPC_SET, &status));
    const struct message first = {.type = 8, .text = "the first messa"};
    PROBE_TRY(msgsnd(full, &first, 16, 0));
}

static void remove_objects(void)
{
    shmctl(kept, IPC_RMID, NULL);
    shmctl(detached, IPC_RMID, NULL);
    semctl(set, 0, IPC_RMID);
    msgctl(queue, IPC_RMID, NULL);
    msgctl(full, IPC_RMID, NULL);
    shmdt(view);
    shmdt(only_read);
    shmdt(without_id);
    munmap(partly, 2 * PAGE);
    munmap(partly + 3 * PAGE, 2 * PAGE);
}

// The findings, so that everything can be removed before a failed check ends the program.
struct found {
    int kept, set, queue, error_of_removed;
    unsigned short values[4];
    int pids[4];
    struct shmid_ds segment, removed;
    struct msqid_ds queue_status;
    char detached[2 * PAGE], without_id[2 * PAGE], kept_bytes[KEPT];
    struct message messages[3], first, second;
    ssize_t sizes[3], first_size, second_size;
    bool view_writable, locked_writable, only_read_writable, hole_writable, behind_writable;
    char done[3];
};

static void look(struct found *found)
{
    found->kept = shmget(key, 0, 0);
    found->set = semget(key, 0, 0);
    found->queue = msgget(key, 0);
    semctl(set, 0, GETALL, found->values);
    for (int i = 0; i < 4; i++)
        found->pids[i] = semctl(set, i, GETPID);
    shmctl(kept, IPC_STAT, &found->segment);
    msgctl(queue, IPC_STAT, &found->queue_status);
    char *at = PROBE_MAP(shmat(detached, NULL, SHM_RDONLY));
    memcpy(found->detached, at, sizeof found->detached);
    shmdt(at);
    memcpy(found->without_id, without_id, sizeof found->without_id);
    memcpy(found->kept_bytes, only_read, KEPT);
    for (int i = 0; i < 3; i++)
        found->sizes[i] = msgrcv(queue, &found->messages[i], LONG, 0, IPC_NOWAIT);
    found->locked_writable = writable(view + PAGE);
    found->only_read_writable = writable(only_read);
    found->hole_writable = writable(partly + 2 * PAGE);
    found->behind_writable = writable(partly + 3 * PAGE);
    found->view_writable = writable(view);
}

static void wake(const pid_t members[3], struct found *found)
{
    const struct message seventh = {.type = 7, .text = "seven"};
    PROBE_TRY(msgsnd(queue, &seventh, 5, 0));
    PROBE_TRY(semop(set, &(struct sembuf){.sem_num = 1, .sem_op = 2}, 1));
    found->first_size = msgrcv(full, &found->first, LONG, 0, IPC_NOWAIT);
    for (int i = 0; i < 3; i++)
        waitpid(members[i], NULL, 0);
    memcpy(found->done, view + 100, 3);
    found->second_size = msgrcv(full, &found->second, LONG, 0, IPC_NOWAIT);
}

static void check(const struct found *found, const pid_t members[3])
{
    probe_equal("segment of the key", kept, found->kept);
    probe_equal("set of the key", set, found->set);
    probe_equal("queue of the key", queue, found->queue);
    probe_equal("value of semaphore 0", 5, found->values[0]);
    probe_equal("value of semaphore 1", 0, found->values[1]);
    probe_equal("value of semaphore 2", 32767, found->values[2]);
    probe_equal("value of semaphore 3", 1, found->values[3]);
    if (!probe_told("newids")) {
        probe_equal("who changed semaphore 0", getpid(), found->pids[0]);
        probe_equal("who changed semaphore 3", members[1], found->pids[3]);
    }
    probe_equal("mode of the segment", 0640, found->segment.shm_perm.mode & 0777);
    probe_equal("owner of the segment", getuid(), found->segment.shm_perm.uid);
    probe_equal("size of the segment", KEPT, (long long)found->segment.shm_segsz);
    probe_filled("segment", found->kept_bytes + PAGE, KEPT - PAGE, 1);
    probe_filled("detached segment", found->detached, sizeof found->detached, 2);
    probe_filled("removed segment", found->without_id, sizeof found->without_id, 3);
    probe_true("the segment can be written", found->view_writable);
    probe_true("the protected page cannot", !found->locked_writable);
    probe_true("what is attached to be read cannot", !found->only_read_writable);
    probe_true("what was unmapped is not there", !found->hole_writable);
    probe_true("what is behind it is", found->behind_writable);
    probe_equal("limit of the queue", LIMIT, (long long)found->queue_status.msg_qbytes);
    probe_equal("messages in the queue", 3, (long long)found->queue_status.msg_qnum);
    probe_equal("size of message 0", 5, found->sizes[0]);
    probe_equal("type of message 0", 3, found->messages[0].type);
    probe_equal_bytes("message 0", "three", found->messages[0].text, 5);
    probe_equal("size of message 1", 0, found->sizes[1]);
    probe_equal("type of message 1", 1, found->messages[1].type);
    probe_equal("size of message 2", LONG, found->sizes[2]);
    probe_filled("message 2", found->messages[2].text, LONG, 4);
    probe_equal("size of the first message in the full queue", 16, found->first_size);
    probe_equal("its type", 8, found->first.type);
    probe_equal("size of what waited for room", 16, found->second_size);
    probe_equal("its type", 9, found->second.type);
    probe_equal("who waited for a value", 1, found->done[0]);
    probe_equal("who waited for a message", 1, found->done[1]);
    probe_equal("who waited for room", 1, found->done[2]);
}

static struct found found;

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        memset(&found, 0, sizeof found);
        make_objects();
        const pid_t members[3] = {
            probe_fork_sleeping(wait_for_value, SYS_semtimedop),
            probe_fork_sleeping(wait_for_message, SYS_msgrcv),
            probe_fork_sleeping(wait_for_room, SYS_msgsnd),
        };
        probe_ready();
        PROBE_SABOTAGE("segment", view[3 * PAGE]++);
        PROBE_SABOTAGE("value", semctl(set, 2, SETVAL, 1));
        PROBE_SABOTAGE("message", msgrcv(queue, &found.first, LONG, 1, 0));
        look(&found);
        wake(members, &found);
        remove_objects();
        check(&found, members);
    } while (probe_more());
    return probe_pass();
}
