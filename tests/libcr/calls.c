/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function of libcr.h without a checkpoint: its results, each error code, and that errno is
 * set for errors only. Ends with 0, or names the lines that failed.
 */
#include <blcr_common.h>
#include <libcr.h>

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int wrong;

static void check(int ok, int line, const char *what)
{
    if (!ok) {
        fprintf(stderr, "calls.c:%d: %s; errno %d (%s)\n", line, what, errno, cr_strerror(errno));
        wrong = 1;
    }
}

#define CHECK(condition) check((condition), __LINE__, #condition)
#define FAILS(call, code) (errno = 0, CHECK((call) == -1 && errno == (code)))
#define GIVES(call, value) (errno = EXDEV, CHECK((call) == (value) && errno == EXDEV))

static int callback(void *arg)
{
    return arg != NULL;
}

static void hook(cr_hook_event_t event)
{
    (void)event;
}

/* Constants that are compiled into programs by BLCR's header. */
static void numbers(void)
{
    CHECK(LIBCR_MAJOR == 0 && CR_RELEASE_MAJOR == 0 && CR_RELEASE_MINOR == 8);
    CHECK(CR_SIGNUM == SIGRTMAX);
    CHECK(CR_SCOPE_PROC == 0 && CR_SCOPE_PGRP == 1 && CR_SCOPE_SESS == 2 && CR_SCOPE_TREE == 3);
    CHECK(CR_CHKPT_PROHIBIT_SELF == 1 && CR_CHKPT_PTRACED_ALLOW == 2);
    CHECK(CR_CHKPT_PTRACED_SKIP == 4 && CR_CHKPT_PTRACER_SKIP == 8 && CR_CHKPT_ASYNC_ERR == 0x10);
    CHECK(CR_CHKPT_DUMP_EXEC == 0x200 && CR_CHKPT_DUMP_PRIVATE == 0x400);
    CHECK(CR_CHKPT_DUMP_SHARED == 0x800 && CR_CHKPT_DUMP_ALL == 0xe00 && CR_DEST_CWD == -4096);
    CHECK(CR_RSTRT_ASYNC_ERR == 1 && CR_RSTRT_RESTORE_PID == 2);
    CHECK(CR_RSTRT_RESTORE_PGID == 4 && CR_RSTRT_RESTORE_SID == 8 && CR_MAX_RSTRT_RELOC == 16);
    CHECK(CR_THREAD_CONTEXT == 0x4000000 && CR_SIGNAL_CONTEXT == 0x2000000);
    CHECK(CR_MAX_CALLBACKS == 0x1FFFFFF && CR_ID_CALLBACK == -1);
    CHECK(CR_CHECKPOINT_READY == 0 && CR_CHECKPOINT_TEMP_FAILURE == 1);
    CHECK(CR_CHECKPOINT_PERM_FAILURE == 2 && CR_CHECKPOINT_OMIT == 4);
    CHECK(CR_CHECKPOINT_TEMP_FAILURE_CODE(3) == 0x30001);
    CHECK(CR_CHECKPOINT_PERM_FAILURE_CODE(3) == 0x30002);
    CHECK(CR_STATE_IDLE == 0 && CR_STATE_PENDING == 1 && CR_STATE_ACTIVE == 2);
    CHECK(CR_HOLD_SCOPE_THREAD == 0 && CR_HOLD_SCOPE_INIT == 1 && CR_HOLD_SCOPE_UNINIT == 2);
    CHECK(CR_HOLD_READ == -1 && CR_HOLD_NONE == 0 && CR_HOLD_CONT == 1 && CR_HOLD_RSTRT == 2);
    CHECK(CR_HOLD_BOTH == 3 && CR_HOLD_DFLT == 4 && CR_NUM_HOOKS == 6);
    CHECK(CR_HOOK_CONT_SIGNAL_CONTEXT == 0 && CR_HOOK_RSTRT_NO_CALLBACKS == 5);
    CHECK(CR_POLL_CHKPT_ERR_PRE == -1 && CR_POLL_CHKPT_ERR_POST == -2);
    CHECK(CR_POLL_CHKPT_ERR_LOG == -3 && CR_POLL_RSTRT_ERR_LOG == -3);
    CHECK(sizeof(cr_checkpoint_args_t) == 28 && offsetof(cr_checkpoint_args_t, cr_target) == 8);
    CHECK(offsetof(cr_checkpoint_args_t, cr_fd) == 12);
    CHECK(offsetof(cr_checkpoint_args_t, cr_flags) == 24);
    CHECK(sizeof(cr_restart_args_t) == 24 && offsetof(cr_restart_args_t, cr_relocate) == 16);
    CHECK(sizeof(struct cr_checkpoint_info) == 32 && sizeof(struct cr_restart_info) == 16);
    CHECK(CR_RSTRT_RELOCATE_SIZE(2) == 40 && sizeof(cr_checkpoint_handle_t) == sizeof(long));
}

static void without_init(void)
{
    FAILS(cr_register_callback(callback, NULL, CR_SIGNAL_CONTEXT), CR_ENOINIT);
    FAILS(cr_replace_callback(CR_SIGNAL_CONTEXT, callback, NULL, CR_SIGNAL_CONTEXT), CR_ENOINIT);
    FAILS(cr_enter_cs(0), CR_ENOINIT);
    FAILS(cr_tryenter_cs(0), CR_ENOINIT);
    FAILS(cr_leave_cs(0), CR_ENOINIT);
    FAILS(cr_status(), CR_ENOINIT);
    FAILS(cr_hold_ctrl(CR_HOLD_SCOPE_THREAD, CR_HOLD_READ), CR_ENOINIT);
    FAILS(cr_inc_persist(), CR_ENOINIT);
    FAILS(cr_dec_persist(), CR_ENOINIT);
    errno = 0;
    CHECK(cr_register_hook(CR_HOOK_CONT_NO_CALLBACKS, hook) == CR_HOOK_FN_ERROR);
    CHECK(errno == CR_ENOINIT);
}

static void outside_callbacks(void)
{
    GIVES(cr_checkpoint(CR_CHECKPOINT_READY), -CR_ENOTCB);
    GIVES(cr_checkpoint(CR_CHECKPOINT_PERM_FAILURE), -CR_ENOTCB);
    FAILS(cr_replace_self(callback, NULL, CR_SIGNAL_CONTEXT), CR_ENOTCB);
    FAILS(cr_forward_checkpoint(CR_SCOPE_PROC, 0), CR_ENOTCB);
    CHECK(cr_get_checkpoint_info() == NULL);
    CHECK(cr_get_restart_info() == NULL);
    CHECK(cr_restarts() == 0);
}

static void callbacks(void)
{
    cr_callback_id_t first = cr_register_callback(callback, NULL, CR_SIGNAL_CONTEXT);
    cr_callback_id_t second = cr_register_callback(callback, NULL, CR_SIGNAL_CONTEXT);
    cr_callback_id_t threaded = cr_register_callback(callback, NULL, CR_THREAD_CONTEXT);
    CHECK(first >= 0 && second >= 0 && threaded >= 0);
    CHECK(first != second && first != threaded && second != threaded);
    FAILS(cr_register_callback(callback, NULL, 0), EINVAL);
    FAILS(cr_register_callback(callback, NULL, CR_SIGNAL_CONTEXT | CR_THREAD_CONTEXT), EINVAL);
    FAILS(cr_register_callback(callback, NULL, CR_SIGNAL_CONTEXT | 1), EINVAL);
    GIVES(cr_replace_callback(first, NULL, NULL, CR_SIGNAL_CONTEXT), 0);
    GIVES(cr_replace_callback(threaded, NULL, NULL, CR_THREAD_CONTEXT), 0);
    FAILS(cr_replace_callback(first, callback, NULL, CR_THREAD_CONTEXT), EINVAL);
    FAILS(cr_replace_callback(threaded, callback, NULL, CR_SIGNAL_CONTEXT), EINVAL);
    FAILS(cr_replace_callback(first, callback, NULL, 0), EINVAL);
    FAILS(cr_replace_callback(second + 1, callback, NULL, CR_SIGNAL_CONTEXT), EINVAL);
    FAILS(cr_replace_callback(-1, callback, NULL, CR_SIGNAL_CONTEXT), EINVAL);
    for (int i = 0; i < 1000; i++) /* more than one page of them */
        CHECK(cr_register_callback(NULL, NULL, CR_SIGNAL_CONTEXT) == second + 1 + i);
}

static void sections(cr_client_id_t id)
{
    for (int depth = 0; depth < 1000; depth++)
        GIVES(depth % 2 ? cr_enter_cs(id) : cr_tryenter_cs(id), 0);
    for (int depth = 0; depth < 1000; depth++)
        GIVES(cr_leave_cs(id), 0);
    FAILS(cr_leave_cs(id), EINVAL);
    FAILS(cr_enter_cs(id + 1), EINVAL);
    FAILS(cr_tryenter_cs(CR_ID_CALLBACK), EINVAL);
    FAILS(cr_enter_cs(CR_ID_CALLBACK), EINVAL);
    FAILS(cr_leave_cs(id + 1), EINVAL);
    GIVES(cr_status(), CR_STATE_IDLE);
}

static void holding(void)
{
    GIVES(cr_hold_ctrl(CR_HOLD_SCOPE_THREAD, CR_HOLD_READ), CR_HOLD_DFLT);
    GIVES(cr_hold_ctrl(CR_HOLD_SCOPE_INIT, CR_HOLD_READ), CR_HOLD_BOTH);
    GIVES(cr_hold_ctrl(CR_HOLD_SCOPE_UNINIT, CR_HOLD_READ), CR_HOLD_BOTH);
    GIVES(cr_hold_ctrl(CR_HOLD_SCOPE_THREAD, CR_HOLD_CONT), CR_HOLD_DFLT);
    GIVES(cr_hold_ctrl(CR_HOLD_SCOPE_THREAD, CR_HOLD_DFLT), CR_HOLD_CONT);
    GIVES(cr_hold_ctrl(CR_HOLD_SCOPE_INIT, CR_HOLD_NONE), CR_HOLD_BOTH);
    GIVES(cr_hold_ctrl(CR_HOLD_SCOPE_INIT, CR_HOLD_RSTRT), CR_HOLD_NONE);
    GIVES(cr_hold_ctrl(CR_HOLD_SCOPE_INIT, CR_HOLD_BOTH), CR_HOLD_RSTRT);
    FAILS(cr_hold_ctrl(CR_HOLD_SCOPE_INIT, CR_HOLD_DFLT), EINVAL);
    FAILS(cr_hold_ctrl(CR_HOLD_SCOPE_UNINIT, 8), EINVAL);
    FAILS(cr_hold_ctrl(3, CR_HOLD_READ), EINVAL);
    FAILS(cr_hold_ctrl(-1, CR_HOLD_READ), EINVAL);
}

static void hooks(void)
{
    CHECK(cr_register_hook(CR_HOOK_CONT_NO_CALLBACKS, hook) == NULL);
    CHECK(cr_register_hook(CR_HOOK_CONT_NO_CALLBACKS, NULL) == hook);
    CHECK(cr_register_hook(CR_HOOK_CONT_NO_CALLBACKS, NULL) == NULL);
    errno = 0;
    CHECK(cr_register_hook(CR_NUM_HOOKS, hook) == CR_HOOK_FN_ERROR && errno == EINVAL);
    errno = 0;
    CHECK(cr_register_hook((cr_hook_event_t)-1, hook) == CR_HOOK_FN_ERROR && errno == EINVAL);
    errno = 0;
    CHECK(cr_register_hook(CR_HOOK_CONT_NO_CALLBACKS, CR_HOOK_FN_ERROR) == CR_HOOK_FN_ERROR &&
          errno == EINVAL);
}

static void spinlocks(void)
{
    cr_spinlock_t lock = CR_SPINLOCK_INITIALIZER;
    CHECK(cr_spinlock_trylock(&lock) != 0);
    CHECK(cr_spinlock_trylock(&lock) == 0);
    cr_spinlock_unlock(&lock);
    cr_spinlock_lock(&lock);
    CHECK(cr_spinlock_trylock(&lock) == 0);
    cr_spinlock_init(&lock);
    CHECK(cr_spinlock_trylock(&lock) != 0);
}

static cr_spinlock_t shared_lock;
static long counter;

static void *count(void *arg)
{
    for (int i = 0; i < 20000; i++) {
        cr_spinlock_lock(&shared_lock);
        counter++;
        cr_spinlock_unlock(&shared_lock);
    }
    return arg;
}

static pthread_key_t key;
static int in_destructor;

static void destructor(void *arg)
{
    cr_client_id_t id = *(cr_client_id_t *)arg;
    in_destructor = cr_enter_cs(id) == 0 && cr_leave_cs(id) == 0 && cr_dec_persist() == 1;
}

static void *short_thread(void *arg)
{
    static cr_client_id_t id;
    without_init();
    id = cr_init();
    CHECK(id >= 0 && id != *(cr_client_id_t *)arg);
    FAILS(cr_enter_cs(*(cr_client_id_t *)arg), EINVAL); /* another thread's id */
    GIVES(cr_inc_persist(), 0);
    pthread_setspecific(key, &id);
    return arg;
}

static cr_client_id_t main_id;
static volatile sig_atomic_t handled;

static void handler(int signal)
{
    (void)signal;
    handled =
        cr_enter_cs(main_id) == 0 && cr_leave_cs(main_id) == 0 && cr_status() == CR_STATE_IDLE;
}

static volatile int forked;

static void *replace_callbacks(void *arg)
{
    cr_init();
    const int id = cr_register_callback(callback, NULL, CR_SIGNAL_CONTEXT);
    while (!forked)
        cr_replace_callback(id, callback, NULL, CR_SIGNAL_CONTEXT);
    return arg;
}

static int is_unknown(void)
{
    cr_checkpoint_handle_t none = 4711;
    return cr_wait_checkpoint(&none, NULL) == -1;
}

static void *look_for_requests(void *arg)
{
    while (!forked)
        is_unknown();
    return arg;
}

/* A child can use what a thread of the parent's held at that moment. */
static void forks(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, replace_callbacks, NULL);
    pthread_create(&threads[1], NULL, look_for_requests, NULL);
    for (int i = 0; i < 200 && !wrong; i++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(30); /* it would wait for ever */
            cr_init();
            const int id = cr_register_callback(callback, NULL, CR_SIGNAL_CONTEXT);
            const int replaced = cr_replace_callback(id, callback, NULL, CR_SIGNAL_CONTEXT);
            _exit(id < 0 || replaced != 0 || !is_unknown());
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    forked = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    pthread_t threads[4];
    numbers();
    outside_callbacks();
    without_init();
    main_id = cr_init();
    CHECK(main_id >= 0);
    GIVES(cr_init(), main_id);
    outside_callbacks();
    callbacks();
    sections(main_id);
    holding();
    hooks();
    spinlocks();

    FAILS(cr_dec_persist(), ERANGE);
    GIVES(cr_inc_persist(), 0);
    GIVES(cr_inc_persist(), 1);
    GIVES(cr_dec_persist(), 2);
    GIVES(cr_dec_persist(), 1);
    pthread_key_create(&key, destructor);
    pthread_create(&threads[0], NULL, short_thread, &main_id);
    pthread_join(threads[0], NULL);
    CHECK(in_destructor);

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, count, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(counter == 80000);

    signal(SIGUSR1, handler);
    CHECK(cr_enter_cs(main_id) == 0);
    raise(SIGUSR1);
    CHECK(handled);
    CHECK(cr_leave_cs(main_id) == 0);

    CHECK(cr_enter_cs(main_id) == 0);
    pid_t child = fork(); /* the child is no client, and in no section */
    if (child == 0) {
        wrong = 0;
        CHECK(cr_status() == -1 && errno == CR_ENOINIT);
        const int id = cr_init();
        GIVES(cr_init(), id);
        sections(id);
        _exit(wrong);
    }
    CHECK(cr_leave_cs(main_id) == 0);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    forks();
    return wrong;
}
