/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that requests a checkpoint of itself, and whose THREAD-context callback goes on only
 * when the request has been made. The log has the results.
 *
 *     asks LOG IMAGE under_way    it asks when the callback waits for it, for another's checkpoint
 *     asks LOG IMAGE begun        the checkpoint begins while it still asks
 *
 * It ends when LOG.end exists.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "log.h"

#include <libcr.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int called, asked; /* atomic */
static int begins_early;

static void nap(void)
{
    const struct timespec pause = {0, 2000000};
    nanosleep(&pause, NULL);
}

static int is_set(const int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void set(int *flag)
{
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

/* Gives up after some time, so that the test fails and does not hang. */
static int callback(void *arg)
{
    (void)arg;
    set(&called);
    for (int left = 5000; left > 0 && !is_set(&asked); left--)
        nap();
    say(is_set(&asked) ? "callback" : "callback in vain", 0);
    cr_checkpoint(CR_CHECKPOINT_READY);
    return 0;
}

/* The C library's, for libcr, too: that closes its end of a pipe when it has started the command.
 */
int close(int fd)
{
    int (*real_close)(int);
    struct stat status;
    if (begins_early && fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode)) {
        while (cr_status() != CR_STATE_PENDING)
            nap();
        say("pending", 0);
        begins_early = 0;
    }
    *(void **)&real_close =
        dlsym(RTLD_NEXT, "close"); /* a system call under cr_run calls close() */
    return real_close(fd);
}

int main(int argc, char **argv)
{
    cr_checkpoint_args_t args;
    cr_checkpoint_handle_t handle = 0;
    char name[4096];
    log_fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (log_fd < 0 || argc != 4 || cr_init() < 0 ||
        cr_register_callback(callback, NULL, CR_THREAD_CONTEXT) < 0)
        return 1;
    snprintf(name, sizeof(name), "%s.end", argv[1]);
    say("ready", getpid());
    begins_early = strcmp(argv[3], "begun") == 0;
    while (!begins_early && !is_set(&called))
        nap();
    cr_initialize_checkpoint_args_t(&args);
    args.cr_fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(cr_request_checkpoint(&args, &handle) == 0);
    say("asked", 0);
    set(&asked);
    const int result = cr_poll_checkpoint(&handle, NULL);
    say("polled", result > 0 ? 0 : errno);
    say("done", wrong);
    while (access(name, F_OK) != 0)
        nap();
    return 9;
}
