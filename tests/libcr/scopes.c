/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process among others, with a THREAD-context callback:
 *
 *     scopes LOG [session]
 *
 * Files control it. LOG.forward: lines "SCOPE TARGET", which the callback passes to
 * cr_forward_checkpoint(), and waits for if LOG.hold exists. LOG.wait: the callback waits until
 * LOG.go exists. LOG.beside: the callback makes a request as LOG.ask has it. LOG.ask: a line
 * "SCOPE TARGET FLAGS IMAGE", for which it requests a checkpoint. LOG.fork: it makes a child,
 * which does the same with LOG.child. LOG.vfork: a line with a shell's command, which it executes
 * without Cryo when LOG.exec exists, in a grandchild whose parent ends then. LOG.leave: it ends
 * without waiting for its child, which is then reparented. It ends when LOG.end exists. The log
 * has all results.
 */
#include "log.h"

#include <libcr.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char log_name[4000];

static const char *name(const char *suffix)
{
    static __thread char text[4100]; /* the callback runs beside main() */
    snprintf(text, sizeof(text), "%s.%s", log_name, suffix);
    return text;
}

static int there(const char *suffix)
{
    return access(name(suffix), F_OK) == 0;
}

static void pause_shortly(void)
{
    const struct timespec pause = {0, 2000000};
    nanosleep(&pause, NULL);
}

static void request(const char *which)
{
    int scope, target;
    unsigned flags;
    char image[4096];
    cr_checkpoint_args_t args;
    cr_checkpoint_handle_t handle;
    FILE *order = fopen(name(which), "re");
    if (order == NULL || fscanf(order, "%d %d %u %4095s", &scope, &target, &flags, image) != 4)
        abort();
    fclose(order);
    remove(name(which));
    cr_initialize_checkpoint_args_t(&args);
    args.cr_scope = (cr_scope_t)scope;
    args.cr_target = target;
    args.cr_flags = flags;
    args.cr_fd = open(image, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    errno = 0;
    if (cr_request_checkpoint(&args, &handle) != 0) {
        say("refused", errno);
        close(args.cr_fd);
        return;
    }
    int done;
    do {
        errno = 0;
        done = cr_poll_checkpoint(&handle, NULL);
    } while (done == CR_POLL_CHKPT_ERR_PRE && errno == EINTR);
    say("reaped", done > 0 ? 0 : errno);
    close(args.cr_fd);
}

static int callback(void *arg)
{
    say("enter", cr_get_checkpoint_info()->scope);
    while (there("hold") && !there("forward"))
        pause_shortly();
    FILE *orders = fopen(name("forward"), "re");
    int scope, target;
    while (orders != NULL && fscanf(orders, "%d %d", &scope, &target) == 2) {
        errno = 0;
        const int result = cr_forward_checkpoint((cr_scope_t)scope, target);
        say("forward", result == 0 ? 0 : errno);
    }
    if (orders != NULL)
        fclose(orders);
    if (there("beside"))
        request("beside");
    while (there("wait") && !there("go"))
        pause_shortly();
    const int result =
        cr_checkpoint(there("fail") ? CR_CHECKPOINT_TEMP_FAILURE_CODE(77) : CR_CHECKPOINT_READY);
    say("callback", result);
    return arg != NULL;
}

static void begin(const char *log)
{
    snprintf(log_name, sizeof(log_name), "%s", log);
    log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0)
        abort();
    say("ready", getpid());
}

static void take_part(void)
{
    if (cr_init() < 0 || cr_register_callback(callback, NULL, CR_THREAD_CONTEXT) < 0)
        abort();
}

static pid_t make_child(void)
{
    remove(name("fork"));
    const pid_t pid = fork();
    if (pid == 0) {
        char log[4100];
        snprintf(log, sizeof(log), "%s", name("child"));
        take_part();
        begin(log);
    }
    return pid;
}

/* Both children share this process's memory, and it is suspended until the second one executes. */
static void make_orphan(void)
{
    char command[8192];
    char *const arguments[] = {"sh", "-c", command, NULL};
    char *const environment[] = {"CRYO_OUTSIDE=1", NULL};
    FILE *order = fopen(name("vfork"), "re");
    if (order == NULL || fgets(command, sizeof(command), order) == NULL)
        abort();
    fclose(order);
    remove(name("vfork"));
    const pid_t between = vfork();
    if (between == 0) {
        if (vfork() == 0) {
            say("between", getppid());
            while (!there("exec"))
                pause_shortly();
            execve("/bin/sh", arguments, environment);
            _exit(127);
        }
        _exit(0);
    }
    if (between < 0 || waitpid(between, NULL, 0) != between)
        abort();
}

int main(int argc, char **argv)
{
    pid_t child = 0;
    int status = 0;
    if (argc > 2 && strcmp(argv[2], "session") == 0)
        setsid();
    else
        setpgid(0, 0);
    take_part();
    begin(argv[1]);
    while (!there("end")) {
        if (there("ask"))
            request("ask");
        if (there("fork"))
            child = make_child();
        if (there("vfork"))
            make_orphan();
        if (there("leave"))
            return 8;
        pause_shortly();
    }
    if (child > 0 && (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 9))
        return 2;
    return 9;
}
