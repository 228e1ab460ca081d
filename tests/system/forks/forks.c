// SPDX-License-Identifier: Apache-2.0
// Makes and reaps processes in every possible way, from several threads: forks COUNT. Each way has
// its own status that must come back. Prints how many were made, and ends with 0; any process that
// is lost, or killed by whatever is done to this program meanwhile, ends it with 1.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static atomic_long left;
static atomic_long made;
static char *self;

static void fail(const char *what, long number)
{
    fprintf(stderr, "forks: %s: %ld (%s)\n", what, number, strerror(errno));
    exit(1);
}

static void reap(const char *what, pid_t pid, int expected)
{
    int status = -1;
    if (pid < 0)
        fail(what, pid);
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            fail(what, pid);
    }
    if (status != expected << 8)
        fail(what, status);
}

/* A child inherits its parent's descriptors, but none that Cryo has open there for a moment. */
static int has_more(void)
{
    enum { HIGHEST = 64 };
    for (int fd = 3; fd < HIGHEST; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            return 1;
    }
    return 0;
}

static pid_t forks(void)
{
    const pid_t pid = fork();
    if (pid == 0)
        _exit(has_more() ? 9 : 3);
    return pid;
}

static pid_t executes(void)
{
    const pid_t pid = fork();
    if (pid == 0) {
        execl(self, self, "status", "4", (char *)NULL);
        _exit(127);
    }
    return pid;
}

static pid_t vforks(void)
{
    const pid_t pid = vfork();
    if (pid == 0) {
        execl(self, self, "status", "5", (char *)NULL);
        _exit(127);
    }
    return pid;
}

static pid_t spawns(void)
{
    pid_t pid;
    char *arguments[] = {self, "status", "6", NULL};
    errno = posix_spawn(&pid, self, NULL, NULL, arguments, environ);
    return errno == 0 ? pid : -1;
}

// The child's own child outlives it, in its own session.
static pid_t daemonises(void)
{
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    setsid();
    const pid_t orphan = fork();
    if (orphan == 0)
        _exit(0);
    _exit(orphan > 0 ? 7 : 1);
}

static void *maker(void *number)
{
    pid_t (*const ways[])(void) = {forks, executes, vforks, spawns, daemonises};
    static const char *const names[] = {"fork", "exec", "vfork", "posix_spawn", "daemon"};
    for (size_t turn = (size_t)number; atomic_fetch_sub(&left, 1) > 0; turn++) {
        const size_t way = turn % (sizeof ways / sizeof *ways);
        reap(names[way], ways[way](), 3 + (int)way);
        atomic_fetch_add(&made, 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    if (argc == 3 && strcmp(argv[1], "status") == 0)
        return atoi(argv[2]);
    self = argv[0];
    const long count = argc == 2 ? atol(argv[1]) : 0;
    atomic_store(&left, count);
    for (size_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, maker, (void *)i) != 0)
            fail("a thread", (long)i);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%ld of %ld\n", atomic_load(&made), count);
    return atomic_load(&made) == count ? 0 : 1;
}
