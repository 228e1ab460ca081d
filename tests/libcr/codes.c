/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags and error codes of requests for a checkpoint, each tested on a child:
 *
 *     codes LOG IMAGE WORD
 *
 * WORD is one of those below. It ends with 0, or logs the lines that failed.
 */
#include "codes.h"

#include <sys/syscall.h>

enum { new_user_namespace = 0x10000000 };

static int slow(void *arg)
{
    (void)arg;
    make("called");
    while (!there("go"))
        nanosleep(&moment, NULL);
    cr_checkpoint(CR_CHECKPOINT_READY);
    return 0;
}

static void traced(void)
{
    const pid_t pid = child(NULL);
    CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
    CHECK(result_of(arguments(pid, 0), pid) == CR_EPTRACED);
    CHECK(result_of(arguments(pid, CR_CHKPT_PTRACED_SKIP), pid) == ESRCH);
    CHECK(result_of(arguments(pid, CR_CHKPT_PTRACED_ALLOW), pid) == 0);
    CHECK(result_of(arguments(getpid(), 0), pid) == CR_EPTRACER);
    CHECK(result_of(arguments(getpid(), CR_CHKPT_PTRACER_SKIP), pid) == ESRCH);
    end(pid);
    CHECK(result_of(arguments(getpid(), 0), 0) == 0);
}

static long size_with(pid_t pid, unsigned flags)
{
    struct stat status;
    CHECK(save(pid, flags, 0) == 0);
    CHECK(stat(image, &status) == 0);
    return (long)status.st_size;
}

/* File contents are in the image, too. Private ones include the executable. */
static void contents(void)
{
    const pid_t pid = child(NULL);
    const long without = size_with(pid, 0);
    const long executable = size_with(pid, CR_CHKPT_DUMP_EXEC);
    const long mapped = size_with(pid, CR_CHKPT_DUMP_PRIVATE);
    CHECK(executable > without && mapped > executable);
    CHECK(size_with(pid, CR_CHKPT_DUMP_SHARED) >= without);
    CHECK(size_with(pid, CR_CHKPT_DUMP_ALL) > executable);
    end(pid);
}

static void place(void)
{
    char name[64];
    cr_checkpoint_args_t args;
    const pid_t pid = child(NULL);
    cr_initialize_checkpoint_args_t(&args);
    CHECK(args.cr_fd == CR_DEST_CWD && args.cr_timeout == 0 && args.cr_signal == 0);
    args.cr_target = pid;
    CHECK(result_of(args, 0) == 0);
    snprintf(name, sizeof(name), "context.%d", (int)pid);
    CHECK(access(name, R_OK) == 0);
    end(pid);
}

static void slow_before(void)
{
    if (cr_init() < 0 || cr_register_callback(slow, NULL, CR_THREAD_CONTEXT) < 0)
        _exit(1);
}

static void timed(void)
{
    const pid_t pid = child(slow_before);
    cr_checkpoint_args_t args = arguments(pid, 0);
    args.cr_timeout = 1;
    CHECK(result_of(args, 0) == ETIME);
    CHECK(kill(pid, 0) == 0);
    make("go");
    CHECK(save(pid, 0, 0) == 0);
    end(pid);
}

/* A request that is not complete, because its target delays it. */
static void waits(void)
{
    cr_checkpoint_handle_t handle;
    const pid_t pid = child(slow_before);
    cr_checkpoint_args_t args = arguments(pid, 0);
    struct timeval none = {0, 0};
    struct timeval some = {0, 20000};
    struct timeval bad = {-1, 0};
    char *text = image != NULL ? "untouched" : NULL;
    CHECK(cr_request_checkpoint(&args, &handle) == 0);
    await("called");
    CHECK(cr_wait_checkpoint(&handle, &none) == 0);
    CHECK(cr_wait_checkpoint(&handle, &some) == 0 && some.tv_sec == 0 && some.tv_usec == 0);
    FAILS(cr_wait_checkpoint(&handle, &bad), EINVAL);
    FAILS(cr_reap_checkpoint(&handle), EAGAIN);
    CHECK(cr_poll_checkpoint(&handle, &none) == 0);
    CHECK(cr_poll_checkpoint_msg(&handle, &none, &text) == 0);
    CHECK(strcmp(text, "untouched") == 0);
    interrupt_soon();
    FAILS(cr_wait_checkpoint(&handle, NULL), EINTR);
    errno = 0;
    CHECK(cr_poll_checkpoint(&handle, NULL) == CR_POLL_CHKPT_ERR_PRE && errno == EINTR);
    interrupt_no_more();
    make("go");
    struct timeval long_time = {1000, 0};
    CHECK(cr_wait_checkpoint(&handle, &long_time) > 0 && long_time.tv_sec > 800);
    CHECK(cr_reap_checkpoint(&handle) > 0);
    FAILS(cr_wait_checkpoint(&handle, &none), EINVAL);
    FAILS(cr_log_checkpoint(&handle, 0, NULL), EINVAL);
    close(args.cr_fd);
    end(pid);
}

static void execute_without(void)
{
    char *const arguments_of[] = {"sleep", "1000", NULL};
    char *const nothing[] = {"CRYO_OUTSIDE=1", NULL};
    make("ready");
    execve("/bin/sleep", arguments_of, nothing);
    _exit(1);
}

/* Waits until it has become another program: until then it has this program's agent. */
static void await_executed(pid_t pid)
{
    char link[64], own[4096] = "", its[4096];
    snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
    CHECK(readlink("/proc/self/exe", own, sizeof(own) - 1) > 0);
    do {
        memset(its, 0, sizeof(its));
        CHECK(readlink(link, its, sizeof(its) - 1) > 0);
    } while (strcmp(own, its) == 0);
}

static pid_t executed_without(void)
{
    const pid_t pid = child(execute_without);
    await_executed(pid);
    return pid;
}

static void execute_stranger(void)
{
    unsetenv("LD_PRELOAD"); /* under cr_run its agent would listen there */
    setenv("CRYO_OUTSIDE", "1", 1);
    execute_beside("stranger", path("ready"));
}

/* Targets that cannot be saved: without libcr, another user's; and the log that says why. */
static void strangers(void)
{
    char *const unreachable = (char *)16;
    cr_checkpoint_handle_t handle;
    const pid_t pid = executed_without();
    CHECK(save(pid, 0, 0) == CR_ENOSUPPORT);
    cr_checkpoint_args_t args = arguments(pid, 0);
    CHECK(cr_request_checkpoint(&args, &handle) == 0);
    CHECK(cr_wait_checkpoint(&handle, NULL) > 0);
    CHECK(cr_log_checkpoint(&handle, 0, NULL) > 1);
    FAILS(cr_log_checkpoint(&handle, 100, unreachable), EFAULT);
    char *text = NULL;
    errno = 0;
    CHECK(cr_poll_checkpoint_msg(&handle, NULL, &text) == CR_POLL_CHKPT_ERR_POST &&
          errno == CR_ENOSUPPORT);
    CHECK(text != NULL && strstr(text, "cr_run") != NULL);
    free(text);
    close(args.cr_fd);
    end(pid);
    const pid_t other = child(execute_stranger);
    CHECK(save(other, 0, 0) == CR_EVERSION);
    end(other);
    if (geteuid() != 0)
        CHECK(save(1, 0, 0) == EPERM);
    CHECK(save(0x3fffffff, 0, 0) == ESRCH);
}

static void full(void)
{
    struct rlimit usual;
    cr_checkpoint_args_t args = arguments(getpid(), 0);
    cr_checkpoint_handle_t handle;
    CHECK(getrlimit(RLIMIT_NOFILE, &usual) == 0);
    struct rlimit low = {3, usual.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    FAILS(cr_request_checkpoint(&args, &handle), EMFILE);
    CHECK(setrlimit(RLIMIT_NOFILE, &usual) == 0);
    CHECK(result_of(args, 0) == 0);
}

static int descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* No further process may be made, or (most: 2) none by the process in between. */
static void limited(rlim_t most)
{
    struct rlimit usual;
    cr_checkpoint_handle_t handle;
    cr_restart_handle_t restarted;
    cr_restart_args_t restart;
    cr_checkpoint_args_t args = arguments(getpid(), 0);
    cr_initialize_restart_args_t(&restart);
    restart.cr_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(getrlimit(RLIMIT_NPROC, &usual) == 0);
    const struct rlimit low = {most, usual.rlim_max};
    CHECK(setrlimit(RLIMIT_NPROC, &low) == 0);
    const int before = descriptors();
    FAILS(cr_request_checkpoint(&args, &handle), EAGAIN);
    if (most == 1)
        FAILS(cr_request_restart(&restart, &restarted), EAGAIN);
    CHECK(descriptors() == before);
    FAILS(waitpid(-1, NULL, __WALL | WNOHANG), ECHILD);
    CHECK(setrlimit(RLIMIT_NPROC, &usual) == 0);
    close(restart.cr_fd);
    if (most == 1)
        CHECK(result_of(args, 0) == 0);
    else
        close(args.cr_fd);
}

/* A user namespace has its own count of processes. */
static void processes(void)
{
    if (geteuid() == 0)
        return; /* has no limit */
    limited(1);
    const pid_t pid = fork();
    if (pid == 0) {
        wrong = 0;
        if (syscall(SYS_unshare, new_user_namespace) == 0)
            limited(2);
        _exit(wrong);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* Unreaped requests: their number is limited. */
static void many(void)
{
    cr_checkpoint_handle_t handles[100];
    int count = 0;
    cr_checkpoint_args_t args = arguments(0x3fffffff, CR_CHKPT_ASYNC_ERR);
    while (count < 100 && cr_request_checkpoint(&args, &handles[count]) == 0)
        count++;
    CHECK(count >= 16 && count < 100 && errno == EMFILE);
    for (int i = 0; i < count; i++)
        FAILS(cr_reap_checkpoint(&handles[i]), ESRCH);
    args.cr_target = 0;
    CHECK(result_of(args, 0) == 0);
}

/* As many callbacks as one context may have: 512 MiB of them. Each context has its own limit. */
static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static void callbacks(void)
{
    for (int i = 0; i < CR_MAX_CALLBACKS; i++) {
        if (cr_register_callback(do_nothing, NULL, CR_SIGNAL_CONTEXT) < 0) {
            CHECK(!"registered");
            return;
        }
    }
    FAILS(cr_register_callback(do_nothing, NULL, CR_SIGNAL_CONTEXT), ENOSPC);
    FAILS(cr_register_callback(do_nothing, NULL, CR_SIGNAL_CONTEXT), ENOSPC);
    CHECK(cr_register_callback(do_nothing, NULL, CR_THREAD_CONTEXT) >= 0);
}

/* Two at the same time: each has its own log. */
static void logs(void)
{
    char pid[2][32];
    pid_t of[2];
    cr_checkpoint_handle_t handles[2];
    char *text[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        of[i] = executed_without();
        snprintf(pid[i], sizeof(pid[i]), "process %d ", (int)of[i]);
        cr_checkpoint_args_t args = arguments(of[i], 0);
        CHECK(cr_request_checkpoint(&args, &handles[i]) == 0);
        close(args.cr_fd);
    }
    for (int i = 0; i < 2; i++) {
        errno = 0;
        CHECK(cr_poll_checkpoint_msg(&handles[i], NULL, &text[i]) == CR_POLL_CHKPT_ERR_POST &&
              errno == CR_ENOSUPPORT);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(strstr(text[i], pid[i]) != NULL && strstr(text[i], pid[1 - i]) == NULL);
        free(text[i]);
        end(of[i]);
    }
}

/* An image that cannot be written. */
static void disk(void)
{
    const pid_t pid = child(NULL);
    cr_checkpoint_args_t args = arguments(pid, 0);
    close(args.cr_fd);
    args.cr_fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK(result_of(args, 0) == ENOSPC);
    CHECK(kill(pid, 0) == 0 && save(pid, 0, 0) == 0);
    end(pid);
}

static void by_descriptor(void)
{
    struct stat status;
    remove(image);
    const int fd = open(image, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cr_request_fd(fd);
    CHECK(stat(image, &status) == 0 && status.st_size > 4096);
    cr_request_file("/nowhere/at/all"); /* no error is reported, and nothing happens */
    cr_request_fd(-1);
    close(fd);
}

static void nowhere(void)
{
    cr_checkpoint_handle_t handle;
    cr_checkpoint_args_t args = arguments(getpid(), 0);
    cr_restart_args_t restart;
    FAILS(cr_request_checkpoint(&args, &handle), ENOENT);
    cr_initialize_restart_args_t(&restart);
    restart.cr_fd = open(image, O_RDONLY);
    FAILS(cr_request_restart(&restart, &handle), ENOENT);
}

int main(int argc, char **argv)
{
    static const struct subject all[] = {
        {"traced", traced},       {"contents", contents},   {"place", place}, {"time", timed},
        {"wait", waits},          {"strangers", strangers}, {"full", full},   {"fd", by_descriptor},
        {"nowhere", nowhere},     {"many", many},           {"logs", logs},   {"disk", disk},
        {"processes", processes}, {"callbacks", callbacks}};
    return argc < 4 ? 2 : judge(argv, all, sizeof(all) / sizeof(all[0]));
}
