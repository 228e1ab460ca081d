/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by codes.c and restarts.c: children, requests.
 */
#ifndef CRYO_TESTS_LIBCR_CODES_H
#define CRYO_TESTS_LIBCR_CODES_H

#include "log.h"

#include <libcr.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *image;

static const struct timespec moment = {0, 2000000};

static const char *path(const char *suffix)
{
    static char names[4][4200];
    static int turn;
    char *name = names[turn++ & 3];
    snprintf(name, sizeof(names[0]), "%s.%s", image, suffix);
    return name;
}

static int there(const char *suffix)
{
    return access(path(suffix), F_OK) == 0;
}

static void make(const char *suffix)
{
    close(open(path(suffix), O_WRONLY | O_CREAT, 0600));
}

static void await(const char *suffix)
{
    while (!there(suffix))
        nanosleep(&moment, NULL);
}

/* Executes a program in this program's directory, with one argument. */
static void execute_beside(const char *program, const char *word)
{
    char name[4096 + 32];
    const ssize_t size = readlink("/proc/self/exe", name, 4096);
    if (size <= 0)
        _exit(127);
    name[size] = '\0';
    strcpy(strrchr(name, '/') + 1, program);
    execl(name, program, word, NULL);
    _exit(127);
}

/* A child that waits to be killed; `before` is called in it first. */
static pid_t child(void (*before)(void))
{
    remove(path("ready"));
    const pid_t pid = fork();
    if (pid == 0) {
        if (before != NULL)
            before();
        make("ready");
        for (;;)
            pause();
    }
    await("ready");
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid);
}

static cr_checkpoint_args_t arguments(pid_t target, unsigned flags)
{
    cr_checkpoint_args_t args;
    cr_initialize_checkpoint_args_t(&args);
    args.cr_target = target;
    args.cr_flags = flags;
    remove(image); /* writing to a complete image may be refused */
    args.cr_fd = open(image, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return args;
}

/* A traced child stops at every signal, and SIGCHLD reports each stop. */
static void let_go_on(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, WNOHANG | __WALL) == pid && WIFSTOPPED(status))
        ptrace(PTRACE_CONT, pid, 0, (long)WSTOPSIG(status));
}

/* Makes the whole request: 0, or the error it ended with. */
static int result_of(cr_checkpoint_args_t args, pid_t traced)
{
    cr_checkpoint_handle_t handle;
    int error = 0;
    if (cr_request_checkpoint(&args, &handle) != 0) {
        error = errno;
    } else {
        struct timeval shortly = {0, 2000};
        int waited;
        while ((waited = cr_wait_checkpoint(&handle, &shortly)) == 0 ||
               (waited < 0 && errno == EINTR)) {
            if (traced != 0)
                let_go_on(traced);
            shortly = (struct timeval){0, 2000};
        }
        CHECK(waited > 0);
        if (cr_reap_checkpoint(&handle) < 0)
            error = errno;
    }
    if (args.cr_fd >= 0)
        close(args.cr_fd);
    return error;
}

static int save(pid_t target, unsigned flags, int signal)
{
    cr_checkpoint_args_t args = arguments(target, flags);
    args.cr_signal = signal;
    return result_of(args, 0);
}

static void ignore(int signal)
{
    (void)signal;
}

static void interrupt_soon(void)
{
    const struct itimerval soon = {{0, 10000}, {0, 10000}};
    const struct sigaction action = {.sa_handler = ignore};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
}

static void interrupt_no_more(void)
{
    const struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
}

struct subject {
    const char *word;
    void (*run)(void);
};

/* main(): PROGRAM LOG IMAGE WORD, of these subjects. */
static int judge(char **argv, const struct subject *all, size_t count)
{
    log_fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    image = argv[2];
    say("ready", getpid());
    if (cr_init() < 0)
        return 1;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(all[i].word, argv[3]) == 0) {
            all[i].run();
            return wrong;
        }
    }
    return 2;
}

#endif
