/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that requests checkpoints and restarts itself. The log has the results.
 *
 *     requester LOG IMAGE self [WORD]      a checkpoint of itself; WORD: kill, file, cwd, callback,
 *                                          refused (a file; a callback refuses)
 *     requester LOG IMAGE now              of itself, to see when it is taken
 *     requester LOG IMAGE crowded          of itself, with a connection that is accepted late
 *     requester LOG IMAGE signalled        of itself; SIGUSR1 arrives while it waits for a thread
 *     requester LOG IMAGE deltas           of itself three times: to IMAGE.0, IMAGE.1 and IMAGE.2
 *     requester LOG IMAGE other PID        of another process
 *     requester LOG IMAGE errors           every error code of the calls
 *     requester LOG IMAGE restart [WORD]   a restart, without cr_init(); WORD: newids
 *
 * It ends when LOG.end exists.
 */
#include "log.h"

#include <libcr.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int callback(void *arg)
{
    (void)arg;
    say("callback", cr_checkpoint(CR_CHECKPOINT_READY));
    return 0;
}

static int temporary(void *arg)
{
    (void)arg;
    cr_checkpoint(CR_CHECKPOINT_TEMP_FAILURE_CODE(911));
    return 0;
}

static int open_image(const char *image)
{
    return open(image, O_RDWR | O_CREAT | O_TRUNC, 0600);
}

static void await_end(const char *log)
{
    const struct timespec pause = {0, 2000000};
    char name[4096];
    snprintf(name, sizeof(name), "%s.end", log);
    while (access(name, F_OK) != 0)
        nanosleep(&pause, NULL);
}

static int await(cr_checkpoint_handle_t handle)
{
    struct pollfd look = {(int)handle, POLLIN, 0};
    while (poll(&look, 1, -1) < 0 && errno == EINTR)
        ;
    return look.revents;
}

/* All steps, by hand. */
static void save_self(const char *image, int signal)
{
    cr_checkpoint_args_t args;
    cr_checkpoint_handle_t handle = 0;
    struct timeval soon = {0, 0};
    CHECK(cr_initialize_checkpoint_args_t(&args) == 0);
    CHECK(args.cr_scope == CR_SCOPE_PROC && args.cr_target == 0 && args.cr_flags == 0);
    args.cr_fd = open_image(image);
    args.cr_signal = signal;
    CHECK(cr_request_checkpoint(&args, &handle) == 0);
    CHECK((await(handle) & (POLLIN | POLLHUP)) != 0);
    CHECK(cr_wait_checkpoint(&handle, &soon) > 0);
    CHECK(cr_log_checkpoint(&handle, 0, NULL) == 0);
    const int result = cr_reap_checkpoint(&handle);
    say("reaped", result > 0 ? 0 : errno);
    FAILS(cr_reap_checkpoint(&handle), EINVAL);
    CHECK(close(args.cr_fd) == 0);
}

static int told_callback(void *arg)
{
    (void)arg;
    say("requester", cr_get_checkpoint_info()->requester == getpid());
    say("callback", cr_checkpoint(CR_CHECKPOINT_READY));
    return 0;
}

static void ask_for_self(const char *image, cr_checkpoint_args_t *args,
                         cr_checkpoint_handle_t *handle)
{
    cr_initialize_checkpoint_args_t(args);
    args->cr_fd = open_image(image);
    CHECK(cr_request_checkpoint(args, handle) == 0);
}

static void reap_self(const cr_checkpoint_args_t *args, cr_checkpoint_handle_t *handle)
{
    CHECK((await(*handle) & (POLLIN | POLLHUP)) != 0);
    char text[4096];
    const int size = cr_log_checkpoint(handle, sizeof(text), text);
    const int result = cr_reap_checkpoint(handle);
    const int reason = errno;
    if (result < 0 && size > 0)
        fprintf(stderr, "%s\n", text);
    say("reaped", result > 0 ? 0 : reason);
    close(args->cr_fd);
}

/* Inside a critical section, and outside of one. */
static void save_now(const char *image)
{
    cr_checkpoint_args_t args;
    cr_checkpoint_handle_t handle = 0;
    const cr_client_id_t id = cr_init();
    CHECK(cr_register_callback(told_callback, NULL, CR_SIGNAL_CONTEXT) >= 0);
    CHECK(cr_enter_cs(id) == 0);
    say("idle", cr_status() == CR_STATE_IDLE);
    ask_for_self(image, &args, &handle);
    say("pending", cr_status() == CR_STATE_PENDING);
    CHECK(cr_leave_cs(id) == 0);
    say("idle", cr_status() == CR_STATE_IDLE);
    reap_self(&args, &handle);
    ask_for_self(image, &args, &handle);
    say("asked", 0);
    reap_self(&args, &handle);
}

static int call(const struct sockaddr_in *address)
{
    const int caller = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(caller, (const struct sockaddr *)address, sizeof(*address)) == 0);
    return caller;
}

struct crowd {
    struct sockaddr_in address;
    int listener, caller;
};

/* Accepts while the request is in progress, which removes the obstacle. None of the connections is
 * there for so long that cr_checkpoint gives up (250 ms), all together are there for longer than it
 * takes to begin. */
static void *accept_late(void *crowd)
{
    const struct timespec late = {0, 50000000};
    struct crowd *c = crowd;
    for (int left = 5; left > 0; left--) {
        char nothing;
        nanosleep(&late, NULL);
        /* The caller ends first, so the listener's address is free at the restart. close(2) is not
         * enough: cr_checkpoint may have a descriptor of the same socket at that moment. And the
         * accepted end must have seen the end of file: if both end at once, both addresses linger.
         */
        CHECK(shutdown(c->caller, SHUT_RDWR) == 0);
        close(c->caller);
        const int accepted = accept(c->listener, NULL, NULL);
        CHECK(accepted >= 0 && read(accepted, &nothing, 1) == 0);
        close(accepted);
        if (left > 1)
            c->caller = call(&c->address);
    }
    return NULL;
}

static void save_crowded(const char *image)
{
    cr_checkpoint_args_t args;
    cr_checkpoint_handle_t handle = 0;
    struct crowd crowd = {.address = {.sin_family = AF_INET}};
    socklen_t size = sizeof(crowd.address);
    pthread_t thread;
    crowd.listener = socket(AF_INET, SOCK_STREAM, 0);
    crowd.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(crowd.listener, (struct sockaddr *)&crowd.address, size) == 0 &&
          listen(crowd.listener, 1) == 0);
    CHECK(getsockname(crowd.listener, (struct sockaddr *)&crowd.address, &size) == 0);
    crowd.caller = call(&crowd.address);
    CHECK(pthread_create(&thread, NULL, accept_late, &crowd) == 0);
    ask_for_self(image, &args, &handle);
    say("asked", 0);
    reap_self(&args, &handle);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void handle_signal(int signal)
{
    (void)signal;
    say("handled", 0);
}

/* Is in a critical section until LOG.leave exists, and runs no handler. */
static void *stay_inside(void *log)
{
    const struct timespec pause = {0, 2000000};
    const cr_client_id_t id = cr_init();
    char name[4096];
    sigset_t handled;
    snprintf(name, sizeof(name), "%s.leave", (const char *)log);
    sigemptyset(&handled);
    sigaddset(&handled, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &handled, NULL);
    CHECK(cr_enter_cs(id) == 0);
    say("inside", 0);
    while (cr_status() != CR_STATE_PENDING)
        nanosleep(&pause, NULL);
    say("pending", 0);
    while (access(name, F_OK) != 0)
        nanosleep(&pause, NULL);
    say("leaves", 0);
    CHECK(cr_leave_cs(id) == 0);
    return NULL;
}

static int has_line(const char *log, const char *line)
{
    char text[4096];
    const int fd = open(log, O_RDONLY);
    const ssize_t size = read(fd, text, sizeof(text) - 1);
    text[size > 0 ? size : 0] = 0;
    close(fd);
    return strstr(text, line) != NULL;
}

static void save_signalled(const char *image, char *log)
{
    const struct timespec pause = {0, 2000000};
    const struct sigaction action = {.sa_handler = handle_signal};
    cr_checkpoint_args_t args;
    cr_checkpoint_handle_t handle = 0;
    pthread_t thread;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, stay_inside, log) == 0);
    while (!has_line(log, "inside"))
        nanosleep(&pause, NULL);
    ask_for_self(image, &args, &handle);
    say("asked", 0);
    reap_self(&args, &handle);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void save_deltas(const char *image)
{
    const unsigned flags[] = {CR_CHKPT_DELTA_AUTO, CR_CHKPT_DELTA_INCREMENTAL,
                              CR_CHKPT_DELTA_DIFFERENTIAL};
    for (int i = 0; i < 3; i++) {
        cr_checkpoint_args_t args;
        cr_checkpoint_handle_t handle = 0;
        char name[4096];
        snprintf(name, sizeof(name), "%s.%d", image, i);
        cr_initialize_checkpoint_args_t(&args);
        args.cr_fd = open_image(name);
        args.cr_flags = flags[i];
        CHECK(cr_request_checkpoint(&args, &handle) == 0);
        reap_self(&args, &handle);
    }
}

static void save_other(const char *image, pid_t pid)
{
    cr_checkpoint_args_t args;
    cr_checkpoint_handle_t handle = 0;
    char *text = NULL;
    CHECK(cr_initialize_checkpoint_args_t(&args) == 0);
    args.cr_fd = open_image(image);
    args.cr_target = pid;
    args.cr_flags = CR_CHKPT_PROHIBIT_SELF;
    CHECK(cr_request_checkpoint(&args, &handle) == 0);
    const int result = cr_poll_checkpoint_msg(&handle, NULL, &text);
    say("polled", result > 0 ? 0 : errno);
    say("kind", result > 0 ? 0 : result);
    CHECK(text != NULL);
    say("logged", (long)strlen(text));
    free(text);
    CHECK(close(args.cr_fd) == 0);
}

static void request_errors(const char *image)
{
    cr_checkpoint_args_t args;
    cr_checkpoint_handle_t handle = 4711;
    cr_restart_args_t restart;
    cr_initialize_checkpoint_args_t(&args);
    FAILS(cri_init_checkpoint_args_t(CR_CHECKPOINT_ARGS_VERSION + 1, &args), EINVAL);
    FAILS(cri_init_restart_args_t(0, &restart), EINVAL);
    FAILS(cr_wait_checkpoint(&handle, NULL), EINVAL);
    FAILS(cr_log_checkpoint(&handle, 0, NULL), EINVAL);
    FAILS(cr_reap_checkpoint(&handle), EINVAL);
    FAILS(cr_poll_checkpoint(&handle, NULL), EINVAL);
    FAILS(cr_wait_restart(&handle, NULL), EINVAL);
    FAILS(cr_log_restart(&handle, 0, NULL), EINVAL);
    FAILS(cr_reap_restart(&handle), EINVAL);
    FAILS(cr_poll_restart(&handle, NULL), EINVAL);
    CHECK(cr_init() >= 0);

    args.cr_fd = 999;
    FAILS(cr_request_checkpoint(&args, &handle), EBADF);
    args.cr_fd = open("/dev/null", O_RDONLY);
    FAILS(cr_request_checkpoint(&args, &handle), EBADF);
    close(args.cr_fd);
    args.cr_fd = open_image(image);
    args.cr_target = 0x3fffffff;
    FAILS(cr_request_checkpoint(&args, &handle), ESRCH);
    args.cr_target = -1;
    FAILS(cr_request_checkpoint(&args, &handle), EINVAL);
    args.cr_target = 0;
    args.cr_scope = (cr_scope_t)4;
    FAILS(cr_request_checkpoint(&args, &handle), EINVAL);
    args.cr_scope = CR_SCOPE_PROC;
    args.cr_flags = 0x80000000U;
    FAILS(cr_request_checkpoint(&args, &handle), EINVAL);
    args.cr_flags = CR_CHKPT_PTRACED_ALLOW | CR_CHKPT_PTRACED_SKIP;
    FAILS(cr_request_checkpoint(&args, &handle), EINVAL);
    args.cr_flags = CR_CHKPT_DELTA_AUTO | CR_CHKPT_DELTA_INCREMENTAL;
    FAILS(cr_request_checkpoint(&args, &handle), EINVAL);
    cr_checkpoint_args_t nowhere = args; /* no file that bases could lie beside */
    nowhere.cr_fd = open("/dev/null", O_WRONLY);
    nowhere.cr_flags = CR_CHKPT_DELTA_AUTO;
    FAILS(cr_request_checkpoint(&nowhere, &handle), EINVAL);
    close(nowhere.cr_fd);
    args.cr_flags = CR_CHKPT_PROHIBIT_SELF;
    for (int scope = CR_SCOPE_PROC; scope <= CR_SCOPE_TREE; scope++) {
        args.cr_scope = (cr_scope_t)scope;
        FAILS(cr_request_checkpoint(&args, &handle), EDEADLK);
    }
    args.cr_scope = CR_SCOPE_PROC;
    args.cr_version = 2;
    FAILS(cr_request_checkpoint(&args, &handle), EINVAL);
    args.cr_version = CR_CHECKPOINT_ARGS_VERSION;

    args.cr_flags = CR_CHKPT_ASYNC_ERR; /* the same error, reported later */
    args.cr_target = 0x3fffffff;
    CHECK(cr_request_checkpoint(&args, &handle) == 0);
    errno = 0;
    CHECK(cr_poll_checkpoint(&handle, NULL) == CR_POLL_CHKPT_ERR_POST && errno == ESRCH);

    args.cr_target = 1; /* not a program under Cryo; the log says so */
    args.cr_flags = CR_CHKPT_ASYNC_ERR;
    char *text = NULL;
    CHECK(cr_request_checkpoint(&args, &handle) == 0);
    CHECK(cr_poll_checkpoint_msg(&handle, NULL, &text) == CR_POLL_CHKPT_ERR_POST && errno != 0);
    free(text);

    args.cr_target = 0; /* an error code of the program's own */
    args.cr_flags = 0;
    CHECK(cr_register_callback(temporary, NULL, CR_THREAD_CONTEXT) >= 0);
    CHECK(cr_request_checkpoint(&args, &handle) == 0);
    CHECK(cr_wait_checkpoint(&handle, NULL) > 0);
    const int length = cr_log_checkpoint(&handle, 0, NULL);
    char log[512];
    CHECK(length > 1 && length <= (int)sizeof(log));
    CHECK(cr_log_checkpoint(&handle, sizeof(log), log) == length);
    CHECK((int)strlen(log) == length - 1 && strstr(log, "911") != NULL);
    CHECK(cr_log_checkpoint(&handle, 4, log) == length && strlen(log) == 3);
    FAILS(cr_reap_checkpoint(&handle), 911);

    restart = (cr_restart_args_t){0, 0, 0, 0, NULL};
    FAILS(cr_request_restart(&restart, &handle), EINVAL);
    CHECK(cr_initialize_restart_args_t(&restart) == 0);
    CHECK(restart.cr_flags == CR_RSTRT_RESTORE_PID && restart.cr_relocate == NULL);
    FAILS(cr_request_restart(&restart, &handle), EBADF);
    restart.cr_fd = args.cr_fd; /* empty: no image */
    CHECK(cr_request_restart(&restart, &handle) == 0);
    CHECK(cr_wait_restart(&handle, NULL) > 0);
    CHECK(cr_log_restart(&handle, 0, NULL) > 1);
    errno = 0;
    CHECK(cr_reap_restart(&handle) == -1 && errno != 0 && errno != EAGAIN);
    CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
    restart.cr_flags = 0x100;
    FAILS(cr_request_restart(&restart, &handle), EINVAL);
    say("errors", wrong);
}

static int bring_back(const char *image, const char *word)
{
    cr_restart_args_t args;
    cr_restart_handle_t handle = 0;
    int status = -1;
    cr_initialize_restart_args_t(&args);
    args.cr_fd = open(image, O_RDONLY);
    if (strcmp(word, "newids") == 0)
        args.cr_flags = 0;
    CHECK(cr_request_restart(&args, &handle) == 0);
    char *text = NULL;
    const pid_t pid = cr_poll_restart_msg(&handle, NULL, &text);
    say("restarted", pid > 0 ? pid : pid * 10000 - errno);
    CHECK(text != NULL && strlen(text) == 0);
    free(text);
    CHECK(waitpid(-1, &status, 0) == pid);
    say("ended", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    return 0;
}

int main(int argc, char **argv)
{
    const char *image = argv[2];
    const char *word = argc > 4 ? argv[4] : "";
    log_fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (log_fd < 0 || argc < 4)
        return 1;
    say("ready", getpid());
    if (strcmp(argv[3], "restart") == 0)
        return bring_back(image, word);
    if (strcmp(argv[3], "errors") == 0) {
        request_errors(image);
        return wrong;
    }
    if (strcmp(word, "noinit") != 0 && cr_init() < 0)
        return 1;
    if (strcmp(word, "callback") == 0 &&
        (cr_register_callback(callback, NULL, CR_THREAD_CONTEXT) < 0 ||
         cr_register_callback(callback, NULL, CR_SIGNAL_CONTEXT) < 0))
        return 1;
    const int refused = strcmp(word, "refused") == 0;
    if (refused && cr_register_callback(temporary, NULL, CR_THREAD_CONTEXT) < 0)
        return 1;
    if (strcmp(argv[3], "other") == 0)
        save_other(image, atoi(word));
    else if (strcmp(argv[3], "now") == 0)
        save_now(image);
    else if (strcmp(argv[3], "deltas") == 0)
        save_deltas(image);
    else if (strcmp(argv[3], "crowded") == 0)
        save_crowded(image);
    else if (strcmp(argv[3], "signalled") == 0)
        save_signalled(image, argv[1]);
    else if (strcmp(word, "file") == 0 || refused)
        cr_request_file(image);
    else if (strcmp(word, "cwd") == 0)
        cr_request();
    else
        save_self(image, strcmp(word, "kill") == 0 ? SIGKILL : 0);
    say("done", wrong);
    await_end(argv[1]);
    return 9;
}
