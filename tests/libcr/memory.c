/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every ENOMEM of libcr.h: no memory for the mappings that a call makes (RLIMIT_AS), or none from
 * malloc. The call fails, leaves nothing behind, and succeeds once there is memory.
 *
 *     memory LOG IMAGE
 *
 * Ends with 0, or logs the lines that failed.
 */
#include <libcr.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static int wrong;

static void check(int ok, int line, const char *what)
{
    if (!ok) {
        fprintf(stderr, "memory.c:%d: %s; errno %d (%s)\n", line, what, errno, cr_strerror(errno));
        wrong = 1;
    }
}

#define CHECK(condition) check((condition), __LINE__, #condition)
#define FAILS(call, code) (errno = 0, CHECK((call) == -1 && errno == (code)))

/* Replaces malloc() and its like for the library: `left` calls succeed; -1: all. */
static int left = -1;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);

static int may_have(void)
{
    if (left == 0)
        errno = ENOMEM;
    return left < 0 || (left > 0 && left-- > 0);
}

void *malloc(size_t size)
{
    return may_have() ? __libc_malloc(size) : NULL;
}

void *calloc(size_t count, size_t size)
{
    return may_have() ? __libc_calloc(count, size) : NULL;
}

static struct rlimit usual;

static void no_mappings(void)
{
    const struct rlimit none = {4096, usual.rlim_max};
    CHECK(setrlimit(RLIMIT_AS, &none) == 0);
}

static void mappings(void)
{
    CHECK(setrlimit(RLIMIT_AS, &usual) == 0);
}

static int descriptors(void)
{
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    while (readdir(all) != NULL)
        count++;
    closedir(all);
    return count;
}

static int callback(void *arg)
{
    int *calls = arg;
    __atomic_fetch_add(calls, 1, __ATOMIC_SEQ_CST);
    return 0;
}

static void beginning(void)
{
    pthread_key_t key;
    for (int i = 0; i < 64; i++) /* the library's key then needs memory */
        CHECK(pthread_key_create(&key, NULL) == 0);
    no_mappings();
    FAILS(cr_init(), ENOMEM);
    mappings();
    left = 0;
    FAILS(cr_init(), ENOMEM);
    left = -1;
    FAILS(cr_status(), CR_ENOINIT);
    CHECK(cr_init() >= 0);
}

static int calls[2];

/* Registers one after the other until the list has to grow; all of them are called. */
static int callbacks(void)
{
    int registered = 0;
    no_mappings();
    FAILS(cr_register_callback(callback, &calls[0], CR_THREAD_CONTEXT), ENOMEM);
    FAILS(cr_register_callback(callback, &calls[1], CR_SIGNAL_CONTEXT), ENOMEM);
    mappings();
    CHECK(cr_register_callback(callback, &calls[0], CR_THREAD_CONTEXT) == CR_THREAD_CONTEXT);
    CHECK(cr_register_callback(callback, &calls[1], CR_SIGNAL_CONTEXT) == CR_SIGNAL_CONTEXT);
    no_mappings();
    do {
        registered++;
        errno = 0;
    } while (cr_register_callback(callback, &calls[1], CR_SIGNAL_CONTEXT) >= 0);
    CHECK(errno == ENOMEM && registered > 1);
    mappings();
    CHECK(cr_register_callback(callback, &calls[1], CR_SIGNAL_CONTEXT) ==
          (CR_SIGNAL_CONTEXT | registered));
    return registered + 1;
}

/* Repeats with one more allocation allowed until it succeeds. Returns how many were needed. */
static int with_ever_more(int (*call)(void *), void *arg)
{
    const int before = descriptors();
    int needed = 0;
    for (;; needed++) {
        left = needed;
        errno = 0;
        const int result = call(arg);
        const int error = errno;
        left = -1;
        if (result >= 0)
            return needed;
        CHECK(result == -1 && error == ENOMEM);
        CHECK(descriptors() == before);
    }
}

static cr_checkpoint_handle_t handle;

static int request(void *args)
{
    return cr_request_checkpoint(args, &handle);
}

static int request_back(void *args)
{
    return cr_request_restart(args, &handle);
}

static void requests(const char *image, int registered)
{
    char *text = NULL;
    cr_checkpoint_args_t args;
    cr_initialize_checkpoint_args_t(&args);
    args.cr_fd = open(image, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const int before = descriptors();
    no_mappings();
    FAILS(cr_request_checkpoint(&args, &handle), ENOMEM);
    mappings();
    CHECK(descriptors() == before);
    CHECK(with_ever_more(request, &args) > 1);
    CHECK(cr_wait_checkpoint(&handle, NULL) > 0);
    left = 0;
    errno = 0;
    CHECK(cr_poll_checkpoint_msg(&handle, NULL, &text) == CR_POLL_CHKPT_ERR_LOG && errno == ENOMEM);
    left = -1;
    CHECK(text == NULL); /* and the request still exists */
    CHECK(cr_poll_checkpoint_msg(&handle, NULL, &text) > 0 && text != NULL);
    free(text);
    close(args.cr_fd);
    CHECK(calls[0] == 1 && calls[1] == registered);
}

/* A file that is no image. */
static void restart_requests(void)
{
    struct cr_rstrt_relocate *pairs = malloc(CR_RSTRT_RELOCATE_SIZE(2));
    cr_restart_args_t args;
    cr_initialize_restart_args_t(&args);
    args.cr_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    args.cr_relocate = pairs;
    pairs->count = 2;
    pairs->path[0] = pairs->path[1] = (struct cr_rstrt_relocate_pair){"/from", "/to"};
    no_mappings();
    FAILS(cr_request_restart(&args, &handle), ENOMEM);
    mappings();
    CHECK(with_ever_more(request_back, &args) > 2);
    errno = 0;
    CHECK(cr_poll_restart(&handle, NULL) == CR_POLL_RSTRT_ERR_POST && errno != ENOMEM);
    close(args.cr_fd);
    free(pairs);
}

int main(int argc, char **argv)
{
    if (argc < 3 || getrlimit(RLIMIT_AS, &usual) != 0 || freopen(argv[1], "ae", stderr) == NULL)
        return 2;
    setvbuf(stderr, NULL, _IONBF, 0);
    fprintf(stderr, "ready %d\n", (int)getpid());
    beginning();
    requests(argv[2], callbacks());
    restart_requests();
    return wrong;
}
