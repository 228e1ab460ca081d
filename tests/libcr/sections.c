/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that is in a critical section when a checkpoint is requested:
 *
 *     sections LOG [WORD]
 *
 * It is "ready" inside, in two threads. It leaves when LOG.leave exists, and ends when LOG.end
 * does. WORD: nested; thread (a THREAD-context callback); exit (the other thread ends inside);
 * blocked, blocked_thread (all signals are blocked, in the main thread, until LOG.unblock exists);
 * last_ends, last_enters (the other thread blocks all signals, leaves when LOG.unblock exists, and
 * then ends, or enters once more); full (there is no room for a signal as the main thread leaves,
 * until it sleeps).
 */
#include <libcr.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int log_fd;

static void say(const char *line)
{
    if (write(log_fd, line, strlen(line)) < 0)
        abort();
}

static void nap(void)
{
    const struct timespec pause = {0, 1000000};
    nanosleep(&pause, NULL);
}

static void await_file(const char *path, const char *suffix)
{
    char name[4096];
    snprintf(name, sizeof(name), "%s.%s", path, suffix);
    while (access(name, F_OK) != 0)
        nap();
}

static int callback(void *arg)
{
    (void)arg;
    say("callback\n");
    say(cr_checkpoint(CR_CHECKPOINT_READY) > 0 ? "restarted\n" : "continued\n");
    return 0;
}

static pthread_barrier_t barrier;
static int ends_inside;
static const char *log_name;
static const char *word = "";

/* The last thread to leave has all signals blocked, and never unblocks them. */
static void *leave_last(void *arg, cr_client_id_t id)
{
    sigset_t all;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, NULL) != 0)
        abort();
    say("blocks\n");
    await_file(log_name, "unblock");
    say("leaves last\n");
    if (cr_leave_cs(id) != 0)
        abort();
    if (strcmp(word, "last_ends") == 0)
        return arg;
    if (cr_enter_cs(id) != 0)
        abort();
    say("entered\n");
    if (cr_leave_cs(id) != 0)
        abort();
    return arg;
}

static void *other(void *arg)
{
    cr_client_id_t id = cr_init();
    if (id < 0 || cr_enter_cs(id) != 0)
        abort();
    pthread_barrier_wait(&barrier);
    while (cr_status() != CR_STATE_PENDING)
        nap();
    say("pending\n");
    if (ends_inside)
        return arg;
    if (strncmp(word, "last", 4) == 0)
        return leave_last(arg, id);
    if (cr_leave_cs(id) != 0 || cr_tryenter_cs(id) != 1)
        abort();
    say("would wait\n");
    if (cr_enter_cs(id) != 0) /* waits for the checkpoint */
        abort();
    say("entered\n");
    if (cr_leave_cs(id) != 0)
        abort();
    return arg;
}

static struct rlimit room;

/* Makes room for signals as soon as the main thread sleeps, waiting for the checkpoint. */
static void *make_room(void *arg)
{
    char name[64];
    char call[32];
    int asleep = 0;
    snprintf(name, sizeof(name), "/proc/self/task/%d/syscall", (int)getpid());
    while (!asleep) {
        const int fd = open(name, O_RDONLY | O_CLOEXEC);
        const ssize_t got = fd < 0 ? -1 : read(fd, call, sizeof(call) - 1);
        if (got < 0)
            abort();
        close(fd);
        call[got] = 0;
        asleep = strtol(call, NULL, 10) == SYS_futex;
        nap();
    }
    if (setrlimit(RLIMIT_SIGPENDING, &room) != 0)
        abort();
    return arg;
}

static void leave_no_room(void)
{
    if (getrlimit(RLIMIT_SIGPENDING, &room) != 0)
        abort();
    const struct rlimit none = {0, room.rlim_max};
    if (setrlimit(RLIMIT_SIGPENDING, &none) != 0)
        abort();
}

int main(int argc, char **argv)
{
    pthread_t thread;
    pthread_t maker;
    if (argc > 2)
        word = argv[2];
    log_name = argv[1];
    const cr_client_id_t id = cr_init();
    const int context = strstr(word, "thread") != NULL ? CR_THREAD_CONTEXT : CR_SIGNAL_CONTEXT;
    const int blocks = strncmp(word, "blocked", 7) == 0;
    sigset_t all;
    sigset_t before;
    const int depth = strcmp(word, "nested") == 0 ? 3 : 1;
    ends_inside = strcmp(word, "exit") == 0;
    log_fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
    pthread_barrier_init(&barrier, NULL, 2);
    if (log_fd < 0 || id < 0 || cr_register_callback(callback, NULL, context) < 0)
        return 1;
    for (int i = 0; i < depth; i++)
        cr_enter_cs(id);
    pthread_create(&thread, NULL, other, NULL);
    pthread_barrier_wait(&barrier);
    sigfillset(&all);
    if (blocks && pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return 1;
    say("ready\n");
    await_file(argv[1], "leave");
    if (ends_inside)
        pthread_join(thread, NULL); /* so that this is the last thread to leave */
    const int full = strcmp(word, "full") == 0;
    if (full) {
        leave_no_room();
        pthread_create(&maker, NULL, make_room, NULL);
    }
    for (int i = 0; i < depth; i++) {
        say("leave\n");
        cr_leave_cs(id);
    }
    say("left\n");
    if (blocks) {
        await_file(argv[1], "unblock");
        say("unblocks\n");
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (full)
        pthread_join(maker, NULL);
    if (!ends_inside)
        pthread_join(thread, NULL);
    await_file(argv[1], "end");
    return cr_status() == CR_STATE_IDLE ? 9 : 8;
}
