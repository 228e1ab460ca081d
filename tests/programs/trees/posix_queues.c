// SPDX-License-Identifier: Apache-2.0
// Every state of a POSIX message queue: with a name and without one, opened for one direction or
// both, with priorities, empty messages and many bytes, full; and members that wait in each.
#include "probe.h"

#include <mqueue.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { SHORT = 32, LONG = 8192, MANY = 10 };

static char name[64], fullname[64];
static mqd_t queue, reader, writer, full, empty, large;
static volatile int *woken;

struct message {
    const char *text;
    unsigned priority;
};
// In sending order, and in receiving order.
static const struct message sent[] = {{"first", 1}, {"urgent", 9}, {"second", 1}, {"", 0}};
static const struct message expected[] = {{"urgent", 9}, {"first", 1}, {"second", 1}, {"", 0}};

static mqd_t make(const char *at, long messages, long bytes)
{
    struct mq_attr attributes = {.mq_maxmsg = messages, .mq_msgsize = bytes};
    return (mqd_t)PROBE_TRY(mq_open(at, O_CREAT | O_EXCL | O_RDWR, 0600, &attributes));
}

static void receive_one(void)
{
    char text[SHORT];
    woken[0] = mq_receive(empty, text, sizeof text, NULL) == 4 && memcmp(text, "wake", 4) == 0;
}

static void send_one(void)
{
    woken[1] = mq_send(full, "third", 5, 3) == 0;
}

static void make_queues(void)
{
    snprintf(name, sizeof name, "/probe.%d.%u", getpid(), probe_cycle());
    snprintf(fullname, sizeof fullname, "/probe.full.%d", getpid());
    mq_unlink(name); // after a restart to an earlier cycle, a later cycle's may still exist
    mq_unlink(fullname);
    queue = make(name, 8, SHORT);
    PROBE_TRY(fchmod(queue, 0640));
    reader = (mqd_t)PROBE_TRY(mq_open(name, O_RDONLY | O_NONBLOCK));
    writer = (mqd_t)PROBE_TRY(mq_open(name, O_WRONLY));
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++)
        PROBE_TRY(mq_send(queue, sent[i].text, strlen(sent[i].text), sent[i].priority));

    full = make(fullname, 2, SHORT);
    PROBE_TRY(mq_unlink(fullname));
    PROBE_TRY(mq_send(full, "one", 3, 1));
    PROBE_TRY(mq_send(full, "two", 3, 2));
    empty = make(fullname, 2, SHORT);
    PROBE_TRY(mq_unlink(fullname));
    large = make(fullname, MANY, LONG);
    PROBE_TRY(mq_unlink(fullname));
    for (int i = 0; i < MANY; i++) {
        char bytes[LONG];
        probe_fill(bytes, sizeof bytes, (unsigned)i);
        PROBE_TRY(mq_send(large, bytes, sizeof bytes, 5));
    }
}

static void check_named(void)
{
    struct mq_attr now;
    struct stat status;
    PROBE_TRY(mq_getattr(queue, &now));
    PROBE_TRY(fstat(queue, &status));
    probe_equal("messages of the named queue", 4, now.mq_curmsgs);
    probe_equal("its room", 8, now.mq_maxmsg);
    probe_equal("its messages' longest", SHORT, now.mq_msgsize);
    probe_equal("its flags", 0, now.mq_flags);
    probe_equal("its mode", 0640, status.st_mode & 0777);
    PROBE_TRY(mq_getattr(reader, &now));
    probe_equal("flags of the descriptor to read by", O_NONBLOCK, now.mq_flags);
    const mqd_t again = (mqd_t)PROBE_TRY(mq_open(name, O_RDONLY));
    struct stat found;
    PROBE_TRY(fstat(again, &found));
    probe_equal("what the name leads to", (long long)status.st_ino, (long long)found.st_ino);
    PROBE_TRY(mq_close(again));
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char text[SHORT + 1] = "";
        unsigned priority = 99;
        const ssize_t size = PROBE_TRY(mq_receive(reader, text, SHORT, &priority));
        text[size] = 0;
        probe_equal_text("message", expected[i].text, text);
        probe_equal("its priority", expected[i].priority, priority);
    }
    char text[SHORT];
    probe_equal("receiving from what is empty", -1, mq_receive(reader, text, sizeof text, NULL));
    probe_equal("its error", EAGAIN, errno);
    probe_equal("receiving by what is to write", -1, mq_receive(writer, text, sizeof text, NULL));
    probe_equal("its error", EBADF, errno);
    PROBE_TRY(mq_send(writer, "more", 4, 0));
    probe_equal("size of what was sent since", 4, mq_receive(queue, text, sizeof text, NULL));
}

static void check_full(const pid_t members[2])
{
    char text[SHORT];
    PROBE_TRY(mq_send(empty, "wake", 4, 0));
    probe_reap("who waits for a message", members[0]);
    probe_equal("it has received it", 1, woken[0]);
    probe_equal("nobody has sent into the full queue", 0, woken[1]);
    probe_equal("size of a message in it", 3, mq_receive(full, text, sizeof text, NULL));
    probe_equal_bytes("the message", "two", text, 3);
    probe_reap("who waits for room", members[1]);
    probe_equal("it has sent", 1, woken[1]);
    probe_equal("size of what it has sent", 5, mq_receive(full, text, sizeof text, NULL));
    probe_equal("size of the last message", 3, mq_receive(full, text, sizeof text, NULL));
    probe_equal_bytes("the last message", "one", text, 3);
}

static void check_large(void)
{
    for (int i = 0; i < MANY; i++) {
        char bytes[LONG];
        probe_equal("size of a long message", LONG, mq_receive(large, bytes, sizeof bytes, NULL));
        probe_filled("long message", bytes, sizeof bytes, (unsigned)i);
    }
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    woken = PROBE_MAP(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    do {
        woken[0] = woken[1] = 0;
        make_queues();
        const pid_t members[2] = {probe_fork_sleeping(receive_one, SYS_mq_timedreceive),
                                  probe_fork_sleeping(send_one, SYS_mq_timedsend)};
        probe_ready();
        PROBE_SABOTAGE("messages", PROBE_TRY(mq_send(writer, "wrong", 5, 30)));
        check_named();
        check_full(members);
        check_large();
        PROBE_TRY(mq_unlink(name));
        const mqd_t all[] = {queue, reader, writer, full, empty, large};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            PROBE_TRY(mq_close(all[i]));
    } while (probe_more());
    return probe_pass();
}
