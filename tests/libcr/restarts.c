/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags and error codes of requests for a restart, of a child that was saved:
 *
 *     restarts LOG IMAGE WORD [ids]
 *
 * WORD is one of those below; "ids": this user may choose ids. It ends with 0, or logs the lines
 * that failed.
 */
#include "codes.h"

/* The pid of the restored process, or the negated error. */
static pid_t bring_back(unsigned flags, int signal, struct cr_rstrt_relocate *relocations)
{
    cr_restart_args_t args;
    cr_restart_handle_t handle;
    cr_initialize_restart_args_t(&args);
    args.cr_fd = open(image, O_RDONLY | O_CLOEXEC);
    args.cr_flags = flags;
    args.cr_signal = signal;
    args.cr_relocate = relocations;
    const int asked = cr_request_restart(&args, &handle);
    const int result = asked == 0 ? cr_poll_restart(&handle, NULL) : asked;
    const int error = errno;
    close(args.cr_fd);
    CHECK(result > 0 || result == (asked == 0 ? CR_POLL_RSTRT_ERR_POST : -1));
    return result > 0 ? result : -error;
}

static int keeps_ids;

static unsigned ids(void)
{
    return keeps_ids ? CR_RSTRT_RESTORE_PID : 0;
}

static void ids_in_use(void)
{
    const pid_t pid = child(NULL);
    CHECK(save(pid, 0, 0) == 0);
    const pid_t again = bring_back(CR_RSTRT_RESTORE_PID, 0, NULL);
    CHECK(again == -EBUSY || (!keeps_ids && again == -EPERM));
    CHECK(kill(pid, 0) == 0);
    const pid_t other = bring_back(0, 0, NULL);
    CHECK(other > 0 && other != pid);
    end(other);
    end(pid);
    if (keeps_ids) {
        CHECK(bring_back(CR_RSTRT_RESTORE_PID, 0, NULL) == pid);
        end(pid);
    }
}

static void lead_group(void)
{
    setpgid(0, 0);
}

static void lead_session(void)
{
    setsid();
}

static void groups(void)
{
    pid_t pid = child(lead_group);
    CHECK(getpgid(pid) == pid && save(pid, 0, SIGKILL) == 0);
    CHECK(waitpid(pid, NULL, 0) == pid);
    pid_t back = bring_back(ids(), 0, NULL);
    CHECK(back > 0 && getpgid(back) == getpgrp());
    end(back);
    back = bring_back(ids() | CR_RSTRT_RESTORE_PGID, 0, NULL);
    CHECK(back > 0 && getpgid(back) == back);
    end(back);

    pid = child(lead_session);
    CHECK(getsid(pid) == pid && save(pid, 0, SIGKILL) == 0);
    CHECK(waitpid(pid, NULL, 0) == pid);
    back = bring_back(ids(), 0, NULL);
    CHECK(back > 0 && getsid(back) == getsid(0));
    end(back);
    back = bring_back(ids() | CR_RSTRT_RESTORE_SID, 0, NULL);
    CHECK(back > 0 && getsid(back) == back);
    end(back);
}

static int kept_fd;

static void tell(int signal)
{
    (void)signal;
    if (write(kept_fd, "told\n", 5) != 5)
        abort();
}

static void keep_file(void)
{
    const struct sigaction action = {.sa_handler = tell};
    sigaction(SIGUSR1, &action, NULL);
    kept_fd = open(path("old/file"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (kept_fd < 0)
        _exit(1);
}

static void relocate(void)
{
    struct cr_rstrt_relocate *pairs = malloc(CR_RSTRT_RELOCATE_SIZE(17));
    CHECK(mkdir(path("old"), 0700) == 0);
    const pid_t pid = child(keep_file);
    CHECK(save(pid, 0, SIGKILL) == 0);
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK(rename(path("old"), path("new=er")) == 0);
    CHECK(bring_back(ids(), 0, NULL) == -ENOENT);
    pairs->count = 17;
    CHECK(bring_back(ids(), 0, pairs) == -EINVAL);
    for (int i = 0; i < CR_MAX_RSTRT_RELOC; i++)
        pairs->path[i] = (struct cr_rstrt_relocate_pair){"/nowhere", "/elsewhere"};
    pairs->path[15] = (struct cr_rstrt_relocate_pair){path("old"), path("new=er")};
    pairs->count = 16;
    const pid_t back = bring_back(ids(), 0, pairs);
    CHECK(back > 0 && kill(back, SIGUSR1) == 0);
    struct stat status = {0};
    while (back > 0 && stat(path("new=er/file"), &status) == 0 && status.st_size < 5)
        nanosleep(&moment, NULL);
    CHECK(status.st_size == 5);
    end(back);
    free(pairs);
}

static void signalled(void)
{
    int status = 0;
    const pid_t pid = child(NULL);
    CHECK(save(pid, 0, SIGSTOP) == 0);
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    end(pid);
    const pid_t back = bring_back(ids(), SIGTERM, NULL);
    CHECK(back > 0 && waitpid(back, &status, 0) == back);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    CHECK(bring_back(ids(), -1, NULL) == -EINVAL);
    CHECK(save(getpid(), 0, -1) == EINVAL && save(getpid(), 0, 65) == EINVAL);
}

static void machine(void)
{
    const pid_t pid = child(NULL);
    CHECK(save(pid, 0, SIGKILL) == 0);
    CHECK(waitpid(pid, NULL, 0) == pid);
    const pid_t changes = fork();
    if (changes == 0)
        execute_beside("other_machine", image);
    int status = -1;
    CHECK(waitpid(changes, &status, 0) == changes && status == 0);
    CHECK(bring_back(ids(), 0, NULL) == -CR_EBADARCH);
}

/* Errors that are reported through the handle, and an incomplete request. */
static void later(void)
{
    int ends[2];
    cr_restart_args_t args;
    cr_restart_handle_t handle;
    struct timeval none = {0, 0};
    cr_initialize_restart_args_t(&args);
    args.cr_flags |= CR_RSTRT_ASYNC_ERR;
    CHECK(args.cr_fd == -1 && cr_request_restart(&args, &handle) == 0);
    errno = 0;
    CHECK(cr_poll_restart(&handle, NULL) == CR_POLL_RSTRT_ERR_POST && errno == EBADF);

    CHECK(pipe(ends) == 0);
    args.cr_fd = ends[0]; /* an image that never arrives */
    CHECK(cr_request_restart(&args, &handle) == 0);
    CHECK(cr_wait_restart(&handle, &none) == 0);
    FAILS(cr_reap_restart(&handle), EAGAIN);
    CHECK(cr_poll_restart(&handle, &none) == 0);
    interrupt_soon();
    errno = 0;
    CHECK(cr_poll_restart(&handle, NULL) == CR_POLL_RSTRT_ERR_PRE && errno == EINTR);
    interrupt_no_more();
    close(ends[1]);
    char *text = NULL;
    errno = 0;
    CHECK(cr_poll_restart_msg(&handle, NULL, &text) == CR_POLL_RSTRT_ERR_POST && errno != 0);
    CHECK(text != NULL && strlen(text) > 0);
    free(text);
    close(ends[0]);
}

int main(int argc, char **argv)
{
    static const struct subject all[] = {{"ids", ids_in_use},    {"groups", groups},
                                         {"relocate", relocate}, {"signal", signalled},
                                         {"machine", machine},   {"later", later}};
    keeps_ids = argc > 4 && strcmp(argv[4], "ids") == 0;
    return argc < 4 ? 2 : judge(argv, all, sizeof(all) / sizeof(all[0]));
}
