/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of libcr.h whose callbacks do what the command line says, and log it:
 *
 *     client LOG WORD...
 *
 * A WORD is CONTEXT NAME [: BEHAVIOUR]; CONTEXT is t (THREAD), s (SIGNAL, in the main thread) or
 * o (SIGNAL, in another thread). The log has one line for each event; "ready" is the first. The
 * program ends when LOG.end exists.
 */
#include <libcr.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int log_fd;
static const char *log_name;

static void say(const char *name, const char *what)
{
    char line[256];
    size_t length = strlen(name);
    memcpy(line, name, length);
    line[length++] = ' ';
    memcpy(line + length, what, strlen(what));
    length += strlen(what);
    line[length++] = '\n';
    if (write(log_fd, line, length) != (ssize_t)length)
        abort();
}

// Each thread has its own texts: hooks run in several at once.
static const char *number(int n)
{
    static __thread char text[4][16];
    static __thread int turn;
    char *end = text[turn++ & 3] + 15;
    unsigned left = n < 0 ? -(unsigned)n : (unsigned)n;
    *end = 0;
    do {
        *--end = (char)('0' + left % 10);
        left /= 10;
    } while (left != 0);
    if (n < 0)
        *--end = '-';
    return end;
}

struct callback {
    char name[32];
    char behaviour[32];
    int value;
    int context;
    cr_callback_id_t id;
    struct callback *next;
};

static struct callback *callbacks;

static int is(const struct callback *cb, const char *behaviour)
{
    return strcmp(cb->behaviour, behaviour) == 0;
}

static int replacement(void *arg)
{
    say(((struct callback *)arg)->name, "replacement");
    return 0;
}

static void crash(void)
{
    static int *volatile nowhere;
    *nowhere = 0;
}

static int fork_in_callback(const struct callback *cb)
{
    pid_t child = fork();
    if (child == 0) {
        say(cb->name, cr_checkpoint(CR_CHECKPOINT_READY) == -CR_ENOTCB ? "child is in none" : "?");
        _exit(0);
    }
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* The child, where this returns 1, continues after the callback; its parent waits for it to end. */
static int part(const struct callback *cb)
{
    const pid_t child = fork();
    int status = -1;
    if (child == 0)
        return 1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    say(cb->name, status == 0 ? "child has ended" : "?");
    return 0;
}

static int checkpoint_flags(const struct callback *cb)
{
    if (is(cb, "temp"))
        return CR_CHECKPOINT_TEMP_FAILURE_CODE(cb->value);
    if (is(cb, "perm"))
        return CR_CHECKPOINT_PERM_FAILURE_CODE(cb->value);
    return is(cb, "omit") ? CR_CHECKPOINT_OMIT : CR_CHECKPOINT_READY;
}

/* Waits for LOG.SUFFIX; usable in signal handlers. */
static void await_file(const char *suffix)
{
    const struct timespec pause = {0, 2000000};
    char name[4200];
    strcpy(name, log_name);
    strcat(name, suffix);
    while (access(name, F_OK) != 0)
        nanosleep(&pause, NULL);
}

static int requests_itself(void)
{
    cr_checkpoint_args_t args;
    cr_checkpoint_handle_t handle;
    cr_initialize_checkpoint_args_t(&args);
    return cr_request_checkpoint(&args, &handle);
}

static void before_image(const struct callback *cb)
{
    if (is(cb, "waits"))
        await_file(".go");
    if (is(cb, "exit"))
        _exit(cb->value);
    if (is(cb, "exec"))
        execl("/bin/sh", "sh", "-c", "exit 5", (char *)NULL);
    if (is(cb, "crash"))
        crash();
    if (is(cb, "leave"))
        pthread_exit(NULL);
    if (is(cb, "fork"))
        say(cb->name, fork_in_callback(cb) == 0 ? "forked" : "fork failed");
    if (is(cb, "info")) {
        const struct cr_checkpoint_info *info = cr_get_checkpoint_info();
        say(cb->name, info->dest);
        say(cb->name, number(info->signal));
        say(cb->name, info->target == getpid() ? "target" : "?");
        say(cb->name, info->requester > 0 && info->requester != getpid() ? "requester" : "?");
        say(cb->name, cr_get_restart_info() == NULL ? "no restart" : "?");
    }
    if (is(cb, "self"))
        say(cb->name, number(cr_replace_self(replacement, (void *)cb, cb->context)));
    if (is(cb, "misuse")) {
        int context = cb->context ^ (CR_SIGNAL_CONTEXT | CR_THREAD_CONTEXT);
        errno = 0;
        say(cb->name, cr_register_callback(replacement, NULL, cb->context) == -1 && errno == EBUSY
                          ? "register EBUSY"
                          : "?");
        say(cb->name, cr_replace_callback(cb->id, NULL, NULL, cb->context) == -1 && errno == EBUSY
                          ? "replace EBUSY"
                          : "?");
        say(cb->name,
            cr_replace_self(NULL, NULL, context) == -1 && errno == EINVAL ? "self EINVAL" : "?");
        say(cb->name, cr_enter_cs(CR_ID_CALLBACK) == 0 && cr_tryenter_cs(CR_ID_CALLBACK) == 0 &&
                              cr_leave_cs(CR_ID_CALLBACK) == 0 && cr_leave_cs(CR_ID_CALLBACK) == 0
                          ? "sections"
                          : "?");
        say(cb->name, cr_enter_cs(cr_init()) == -1 && errno == EINVAL ? "section EINVAL" : "?");
        say(cb->name, cr_status() == CR_STATE_ACTIVE ? "active" : "?");
        say(cb->name, requests_itself() == -1 && errno == EBUSY ? "request EBUSY" : "?");
        say(cb->name, cr_forward_checkpoint(CR_SCOPE_PROC, getpid()) == 0 ? "forward" : "?");
        say(cb->name, cr_forward_checkpoint((cr_scope_t)9, 0) == -1 && errno == EINVAL
                          ? "forward EINVAL"
                          : "?");
        say(cb->name, cr_forward_checkpoint(CR_SCOPE_PROC, 0x3fffffff) == -1 && errno == ESRCH
                          ? "forward ESRCH"
                          : "?");
    }
}

static int after_image(const struct callback *cb, int rc)
{
    if (is(cb, "exit_after") && rc >= 0)
        _exit(rc > 0 ? cb->value + 1 : cb->value);
    if (is(cb, "crash_after") && rc >= 0)
        crash();
    if (is(cb, "lingers") && rc >= 0) {
        await_file(".go");
        say(cb->name, "through");
    }
    if (is(cb, "twice"))
        say(cb->name, cr_checkpoint(CR_CHECKPOINT_READY) == -CR_ENOTCB ? "not twice" : "?");
    if (is(cb, "self_after") && rc == cb->value)
        say(cb->name,
            cr_replace_self(replacement, (void *)cb, cb->context) == 0 ? "replaced" : "?");
    if (is(cb, "rinfo") && rc > 0) {
        const struct cr_restart_info *info = cr_get_restart_info();
        say(cb->name, info->src);
        say(cb->name, info->requester == getppid() && cr_restarts() == 1 ? "requester" : "?");
    }
    if (is(cb, "looks") && rc == 0)
        say(cb->name, access(cr_get_checkpoint_info()->dest, F_OK) == 0 ? "image" : "no image");
    if (is(cb, "cont_fails") && rc == 0)
        return 1;
    if (is(cb, "rstrt_fails") && rc > 0)
        return 1;
    return 0;
}

/* The floating point state of a callback lives through its cr_checkpoint(). */
static int with_floating_point(const struct callback *cb)
{
    const unsigned toward_zero = 0x6000, usual = 0x1f80, chosen = usual | toward_zero;
    const unsigned short usual_x87 = 0x37f, chosen_x87 = usual_x87 | 0xc00;
    unsigned found = 0;
    unsigned short found_x87 = 0;
    const double value = 1.25 * (double)getpid();
    double popped = 0;
    __asm__ __volatile__("ldmxcsr %0; fldcw %1; fldl %2"
                         :
                         : "m"(chosen), "m"(chosen_x87), "m"(value));
    const int rc = cr_checkpoint(CR_CHECKPOINT_READY);
    __asm__ __volatile__("fstpl %0; fnstcw %1; stmxcsr %2"
                         : "=m"(popped), "=m"(found_x87), "=m"(found));
    __asm__ __volatile__("ldmxcsr %0; fldcw %1" : : "m"(usual), "m"(usual_x87));
    say(cb->name, popped == value ? "x87 stack" : "other x87 stack");
    say(cb->name, found_x87 == chosen_x87 && (found & toward_zero) == toward_zero
                      ? "rounding"
                      : "other rounding");
    say(cb->name, number(rc));
    return 0;
}

static int callback(void *arg)
{
    const struct callback *cb = arg;
    say(cb->name, "enter");
    before_image(cb);
    if (is(cb, "floats"))
        return with_floating_point(cb);
    if (is(cb, "early") || (is(cb, "parts") && part(cb)))
        return 0;
    if (is(cb, "fails"))
        return 1;
    const int rc = cr_checkpoint(checkpoint_flags(cb));
    say(cb->name, number(rc));
    return after_image(cb, rc);
}

static void hook(cr_hook_event_t event)
{
    say("hook", number((int)event));
}

static void add(struct callback *cb)
{
    cb->id = cr_register_callback(callback, cb, cb->context);
    if (cb->id < 0)
        abort();
    if (is(cb, "replaced") && cr_replace_callback(cb->id, replacement, cb, cb->context) != 0)
        abort();
    if (is(cb, "off") && cr_replace_callback(cb->id, NULL, NULL, cb->context) != 0)
        abort();
}

static void await_end(void)
{
    await_file(".end");
}

static pthread_barrier_t barrier;

static void *other_thread(void *arg)
{
    if (cr_init() < 0)
        abort();
    add(arg);
    if (is(arg, "ended"))
        return NULL;
    pthread_barrier_wait(&barrier);
    await_end();
    return NULL;
}

static void register_late(void)
{
    static struct callback late = {.name = "late", .context = CR_SIGNAL_CONTEXT};
    await_file(".ask");
    say("main", "registers");
    add(&late);
    say("main", "has registered");
}

/* The child takes over as the client: it inherits none of the parent's state in the library. */
static void be_child(void)
{
    int status = -1;
    const int id = cr_init();
    const int inside = cr_enter_cs(id);
    const pid_t child = fork();
    if (child == 0) {
        static struct callback own = {.name = "own", .context = CR_SIGNAL_CONTEXT};
        if (inside != 0 || cr_status() != -1 || errno != CR_ENOINIT || cr_leave_cs(id) != -1 ||
            cr_init() < 0 || cr_status() != CR_STATE_IDLE)
            _exit(1);
        add(&own);
        return;
    }
    cr_leave_cs(id);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    _exit(WEXITSTATUS(status));
}

static void *plain_thread(void *arg)
{
    await_end();
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int with_init = 1;
    int asked = 0;
    int registers = 0;
    int is_child = 0;
    log_name = argv[1];
    log_fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "noinit") == 0)
            with_init = 0;
    }
    if (log_fd < 0 || (with_init && cr_init() < 0))
        return 1;
    for (int i = 2; i < argc; i++) {
        struct callback *cb = calloc(1, sizeof(*cb));
        if (strcmp(argv[i], "noinit") == 0)
            continue;
        if (strcmp(argv[i], "thread") == 0) {
            if (pthread_create(&thread, NULL, plain_thread, NULL) != 0)
                return 1;
            continue;
        }
        if (strcmp(argv[i], "asked") == 0) {
            asked = 1;
            continue;
        }
        if (strcmp(argv[i], "registers") == 0) {
            registers = 1;
            continue;
        }
        if (strcmp(argv[i], "child") == 0) {
            is_child = 1;
            continue;
        }
        if (strcmp(argv[i], "free") == 0) {
            if (cr_hold_ctrl(CR_HOLD_SCOPE_THREAD, CR_HOLD_NONE) != CR_HOLD_DFLT)
                return 1;
            continue;
        }
        if (strcmp(argv[i], "hooks") == 0) {
            for (int event = 0; event < CR_NUM_HOOKS; event++) {
                if (cr_register_hook((cr_hook_event_t)event, hook) != NULL)
                    return 1;
            }
            continue;
        }
        if (sscanf(argv[i], "%31[^:]:%31[^=]=%d", cb->name, cb->behaviour, &cb->value) < 1)
            return 1;
        cb->context = cb->name[0] == 't' ? CR_THREAD_CONTEXT : CR_SIGNAL_CONTEXT;
        cb->next = callbacks;
        callbacks = cb;
        if (cb->name[0] != 'o') {
            add(cb);
            continue;
        }
        if (pthread_create(&thread, NULL, other_thread, cb) != 0)
            return 1;
        if (is(cb, "ended"))
            pthread_join(thread, NULL);
        else
            pthread_barrier_wait(&barrier);
    }
    if (is_child)
        be_child();
    say("ready", number(getpid()));
    if (asked) {
        await_file(".ask");
        say("main", "runs");
    }
    if (registers)
        register_late();
    await_end();
    say("main", "ends");
    return 9;
}
