/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcr.h: the C interface of Cryo's library, libcr.so.0.
 *
 *     #include <libcr.h>
 *
 *     static int callback(void *arg)
 *     {
 *             close_connections(arg);
 *             int rc = cr_checkpoint(CR_CHECKPOINT_READY);
 *             if (rc < 0)
 *                     fprintf(stderr, "no checkpoint: %s\n", cr_strerror(-rc));
 *             reopen_connections(arg, rc > 0);        // rc > 0: we are the restored copy
 *             return 0;
 *     }
 *
 *     if (cr_init() < 0 || cr_register_callback(callback, &it, CR_THREAD_CONTEXT) < 0)
 *             ...
 *
 * Names, numbers and meanings are those of BLCR's libcr.h 0.8, so that a program written for BLCR
 * compiles and behaves as it did. A C99 or C++ compiler will do.
 *
 * Link with -lcr; `pkg-config libcr` and CMake's find_package(cryo), target cryo::cr, know how. A
 * program that is linked with the library can be saved whether or not it is started by cr_run.
 *
 * Unless it says otherwise, a function returns a negative number for an error and sets errno, to
 * one of <errno.h> or a CR_E* code. Functions marked "signal-safe" may be called from signal
 * handlers; the others may be called from any thread, but not from a handler.
 */
#ifndef CRYO_LIBCR_H
#define CRYO_LIBCR_H

#include <errno.h>
#include <sys/time.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Error codes beyond those of <errno.h>, which they never overlap.
 *
 * The numbers are part of the interface: they are stored in programs and in exit statuses (a
 * command that fails exits with the low 8 bits, 50 for CR_ETEMPFAIL to 61 for CR_ENOINIT). None is
 * ever changed or used again; new ones are appended before CR_MAX_ERRCODE.
 */
enum {
    CR_MIN_ERRCODE = 2353, /* every CR_E* is greater than this */

    CR_ETEMPFAIL = 2354,  /* a process asked to be checkpointed later; all go on */
    CR_EPERMFAIL = 2355,  /* a process cannot be checkpointed any more; all are killed */
    CR_ENOSUPPORT = 2356, /* a process runs without libcr */
    CR_EVERSION = 2357,   /* versions of library, commands and module do not match */
    CR_EOMITTED = 2358,   /* a callback left this process out of the checkpoint */
    CR_EBADARCH = 2359,   /* the image was taken on another architecture */
    CR_EPTRACED = 2360,   /* a process is being traced by a debugger */
    CR_EPTRACER = 2361,   /* a process is tracing another one */
    CR_ERSTRTABRT = 2362, /* the restart was given up; what had been restored is killed */
    CR_ERESTARTED = 2363, /* the request was made before a restart and ended there */
    CR_ENOTCB = 2364,     /* the call is for checkpoint callbacks only */
    CR_ENOINIT = 2365,    /* this thread has not called cr_init() */

    CR_MAX_ERRCODE = 2366 /* every CR_E* is less than this; grows as codes are appended */
};

/*
 * A one-line description of an error, without a newline at its end: of a CR_E* code, or as
 * strerror(3) gives it for any other number, known or not. Never NULL, and errno is left alone.
 *
 * The text must not be changed or freed. That of a CR_E* code stays valid for ever; any other until
 * the same thread calls cr_strerror() or strerror() again. Safe to call from any thread, but not
 * from a signal handler.
 */
const char *cr_strerror(int errnum);

/*
 * The version of the library that the program runs with, as "MAJOR.MINOR.PATCH". A constant string,
 * valid for ever. Safe to call from anywhere, a signal handler included.
 */
const char *cr_version_string(void);

/* The release of BLCR whose interface this is, and of its library, for programs that ask. */
#define CR_RELEASE_MAJOR 0
#define CR_RELEASE_MINOR 8
#define CR_RELEASE_PATCH 2
#define CR_RELEASE_VERSION "0.8.2"
#define LIBCR_MAJOR 0 /* as in libcr.so.0 */
#define LIBCR_MINOR 5
#define LIBCR_PATCH 2
#define LIBCR_VERSION "0.5.2"

/*
 * The signal that makes a process take part in a checkpoint, unless `cr_run --signal` has chosen
 * another one. Programs must not use it.
 */
#define CR_SIGNUM 64

#if defined(__GNUC__)
#define CRYO_DEPRECATED __attribute__((__deprecated__))
#define CRYO_EXTENSION __extension__
#else
#define CRYO_DEPRECATED
#define CRYO_EXTENSION
#endif

/* --- Threads ------------------------------------------------------------------------------- */

/* What cr_init() returns: at least 0, and of use in the calling thread only. */
typedef int cr_client_id_t;

/* In place of the client id, inside callbacks. */
#define CR_ID_CALLBACK ((cr_client_id_t)(-1))

/*
 * Registers the calling thread with the library. Each thread calls it once, before any other
 * function of this header except requests and their handles, cr_strerror(), the spinlocks,
 * cr_restarts() and cr_version_string(). A second call returns the same id. Inside a THREAD-context
 * callback it is not needed. The library releases the thread's data when the thread ends.
 *
 * A child made by fork inherits none of that: no callbacks of either context, no critical
 * sections; it calls cr_init() itself. It keeps hooks and cr_hold_ctrl()'s flags for other threads.
 *
 * Errors: ENOMEM; whatever kept the library from opening its control socket; CR_ENOSUPPORT, the
 * program has more rights than the user who started it (setuid, setgid, file capabilities): Cryo
 * is disabled in such a process, which reads none of Cryo's environment variables either.
 */
cr_client_id_t cr_init(void);

/*
 * The library releases a thread's data in a destructor of thread-specific data. A program
 * whose own such destructors call the library (and so may run later) counts them here: it calls
 * cr_inc_persist() once for each key, and cr_dec_persist() in the destructor; while the count is
 * not zero, cr_init() stays in effect.
 *
 * Both return the count as it was. Errors: CR_ENOINIT; ERANGE, the count would become negative or
 * too large.
 */
int cr_inc_persist(void);
int cr_dec_persist(void);

/* --- Callbacks ----------------------------------------------------------------------------- */

typedef int (*cr_callback_t)(void *);

/* What cr_register_callback() returns: at least 0. */
typedef int cr_callback_id_t;

#define CR_MAX_CALLBACKS 0x1FFFFFF /* in one context */

/* Where a callback runs: exactly one of these. */
#define CR_SIGNAL_CONTEXT 0x2000000
#define CR_THREAD_CONTEXT 0x4000000

/*
 * Registers a function to be called at each checkpoint.
 *
 * CR_THREAD_CONTEXT: it runs in a thread of the library's own, which is created when the first one
 * is registered, with all signals blocked. The program runs on meanwhile, so the callback may do
 * what any thread may. Its id is valid in all threads.
 *
 * CR_SIGNAL_CONTEXT: it runs in the thread that registered it, inside a signal handler with all
 * signals blocked, and may do only what is async-signal-safe. Its id is valid in that thread.
 *
 * The order: all THREAD-context callbacks reach cr_checkpoint() before the first SIGNAL-context one
 * begins. Those of the process (of a thread) are called last registered first, each inside the
 * cr_checkpoint() of the one before, and go on in the opposite order. SIGNAL-context callbacks of
 * different threads run at the same time. After cr_checkpoint() there is no order between contexts
 * and threads.
 *
 * When a callback returns without having called cr_checkpoint(), the library does so. It returns 0;
 * any other value means that it failed:
 *   - before cr_checkpoint(), or after it when it returned 0, the checkpoint is given up and the
 *     process killed (CR_EPERMFAIL); where the image was committed already, because the program is
 *     to be sent a signal, the image stays;
 *   - in the restored copy, the copy is killed and cr_restart fails with CR_ERSTRTABRT.
 * A nonzero return after a checkpoint that failed is ignored.
 *
 * If a callback ends or replaces the process (exit, exec, a crash) before the image is taken, the
 * requester gets ESRCH; if later, the image is good. A program executed by a SIGNAL-context
 * callback starts with all signals blocked. If a callback ends its thread: CR_ETEMPFAIL, and the
 * library makes its own thread again. A child made by fork in a callback is in no checkpoint: there
 * cr_checkpoint() returns -CR_ENOTCB, no further callback is called, and it goes on after the
 * callback as the parent does; made in the library's thread, it has only that one and ends with it.
 * Until then it cannot be saved (ENOMEM).
 *
 * Errors: CR_ENOINIT; EINVAL, wrong flags; EBUSY, called from a callback; ENOSPC, there are
 * CR_MAX_CALLBACKS; ENOMEM. Waits for the end of a checkpoint that is under way.
 */
cr_callback_id_t cr_register_callback(cr_callback_t func, void *arg, int flags);

/*
 * Replaces the function and argument of a registered callback, between checkpoints.
 * NULL turns the callback off. `flags` are those it was registered with.
 *
 * Returns 0. Errors: CR_ENOINIT; EINVAL, no such id, or other flags; EBUSY, called from a callback.
 */
int cr_replace_callback(cr_callback_id_t id, cr_callback_t func, void *arg, int flags);

/*
 * Replaces the callback that calls it, from the next checkpoint on. A call before
 * cr_checkpoint() takes effect in the restored copy, too; a call after it only where it is made: in
 * the program that goes on, or in the copy. Errors: CR_ENOTCB, not called from a callback; EINVAL,
 * wrong flags.
 */
int cr_replace_self(cr_callback_t func, void *arg, int flags);

/* What a callback tells cr_checkpoint() about its process. */
enum {
    CR_CHECKPOINT_READY = 0,
    CR_CHECKPOINT_TEMP_FAILURE = 1, /* no checkpoint now; all go on */
    CR_CHECKPOINT_PERM_FAILURE = 2, /* no checkpoint ever; all processes in it are killed */
    CR_CHECKPOINT_OMIT = 4          /* leave this process out */
};

/* With an error code of the program's own, 1 to 65535, instead of CR_ETEMPFAIL or CR_EPERMFAIL. */
#define CR_CHECKPOINT_TEMP_FAILURE_CODE(code) (CR_CHECKPOINT_TEMP_FAILURE | ((code) << 16))
#define CR_CHECKPOINT_PERM_FAILURE_CODE(code) (CR_CHECKPOINT_PERM_FAILURE | ((code) << 16))

/*
 * Called by a callback, once: the checkpoint may go on. With anything but CR_CHECKPOINT_READY, the
 * callbacks of this process (SIGNAL context: of this thread) that have not been called are skipped.
 *
 * Returns, when the image is taken or given up:
 *   0              the program goes on after a checkpoint (the image may still be being written,
 *                  unless `cr_checkpoint --sync` has requested it: only the requester learns
 *                  whether it was completed)
 *   > 0            this is the restored copy
 *   < 0            there is no image; the error code, negated. errno is not set.
 *     -CR_ETEMPFAIL or -code   a callback asked for it
 *     -CR_EPERMFAIL or -code   likewise; not normally seen, as the process is killed
 *     -CR_EOMITTED   a callback left this process out
 *     -CR_ENOTCB     not called from a callback, or for the second time in it
 *     -ECANCELED     the requester went away
 *     another errno  the process could not be saved; the requester was told why
 */
int cr_checkpoint(int flags);

/* About the request; the pointer is good until the callback returns. */
typedef enum {
    CR_SCOPE_PROC, /* one process, all its threads */
    CR_SCOPE_PGRP, /* a process group */
    CR_SCOPE_SESS, /* a session */
    CR_SCOPE_TREE  /* a process and its living descendants */
} cr_scope_t;

struct cr_checkpoint_info {
    int signal;       /* sent when the checkpoint is done, or 0 */
    const char *dest; /* absolute path of the image; "" where it goes to no file */
    pid_t requester;  /* the caller of cr_request_checkpoint(), or cr_checkpoint's pid */
    pid_t target;     /* the pid, process group or session that was named */
    cr_scope_t scope;
};

struct cr_restart_info {
    pid_t requester; /* the pid of cr_restart */
    const char *src; /* absolute path of the image; "" where it came from no file */
};

/* The checkpoint under way. NULL when not called from a callback. */
const struct cr_checkpoint_info *cr_get_checkpoint_info(void);

/* The restart, in the restored copy. NULL when not called from a callback, or before a restart. */
const struct cr_restart_info *cr_get_restart_info(void);

/*
 * How often this process has been restored from an image; 0: never. A child made by fork begins
 * with its parent's number. Signal-safe, and without cr_init(). (Not of BLCR.)
 */
int cr_restarts(void);

/*
 * Where the ranks of an MPI job are, and where they were when it was saved: cryo_placement.h has
 * the structure, whose size the caller sets. For a rank of a job that was started under cr_run,
 * after MPI_Init; a library that is told by a callback that there was a restart asks when the rank
 * next calls MPI, or later. Signal-safe, and without cr_init(). (Not of BLCR.)
 *
 * Returns 0. Errors: EINVAL, no release had such a size; ENOENT, this process is no such rank.
 */
struct cryo_placement;
int cr_placement(struct cryo_placement *placement);

/*
 * Called by a callback before cr_checkpoint(): adds further processes to this checkpoint, so
 * that they are saved at the same moment, into the same image. A target of 0 is the caller, or its
 * process group or session. A process that is in the checkpoint already is not added twice. The
 * callbacks of added processes are called at once, so the calling one may wait for them; if one of
 * them cannot be saved, there is no image. If an added process is in another checkpoint whose
 * processes are not being stopped yet, the two checkpoints become one, and each requester gets the
 * image in its own file. Otherwise, or if the two requests differ in what is to be saved or done,
 * the process is asked when the other checkpoint is over.
 *
 * Returns 0. Errors: CR_ENOTCB; EINVAL, no such scope; ESRCH, no such process; EPERM, it is
 * another user's; EDEADLK, the requester would be in it and has set CR_CHKPT_PROHIBIT_SELF;
 * EOPNOTSUPP, the requester is of an older release.
 */
int cr_forward_checkpoint(cr_scope_t scope, pid_t target);

/* --- Hooks, and held threads ----------------------------------------------------------------- */

/* After a checkpoint (CONT) or a restart (RSTRT), in each thread before it goes on: */
typedef enum {
    CR_HOOK_CONT_SIGNAL_CONTEXT = 0, /* in threads that have called cr_init() */
    CR_HOOK_CONT_THREAD_CONTEXT,     /* in the thread of the THREAD-context callbacks */
    CR_HOOK_CONT_NO_CALLBACKS,       /* in all others */
    CR_HOOK_RSTRT_SIGNAL_CONTEXT,
    CR_HOOK_RSTRT_THREAD_CONTEXT,
    CR_HOOK_RSTRT_NO_CALLBACKS,
    CR_NUM_HOOKS
} cr_hook_event_t;

typedef void (*cr_hook_fn_t)(cr_hook_event_t);
#ifdef __cplusplus
#define CR_HOOK_FN_ERROR (reinterpret_cast<cr_hook_fn_t>(~0UL))
#else
#define CR_HOOK_FN_ERROR ((cr_hook_fn_t)(~0UL))
#endif

/*
 * Sets the hook of an event; NULL is none. It is called after the thread's callbacks, in a signal
 * handler except for *_THREAD_CONTEXT, and not after a checkpoint that failed.
 *
 * Returns the previous hook, or CR_HOOK_FN_ERROR. Errors: CR_ENOINIT; EINVAL, no such event, or
 * CR_HOOK_FN_ERROR.
 */
cr_hook_fn_t cr_register_hook(cr_hook_event_t event, cr_hook_fn_t hook);

enum { CR_HOLD_SCOPE_THREAD, CR_HOLD_SCOPE_INIT, CR_HOLD_SCOPE_UNINIT };

#define CR_HOLD_READ (-1)
#define CR_HOLD_NONE 0
#define CR_HOLD_CONT 1
#define CR_HOLD_RSTRT 2
#define CR_HOLD_BOTH (CR_HOLD_CONT | CR_HOLD_RSTRT)
#define CR_HOLD_DFLT 4

/*
 * After a checkpoint (CR_HOLD_CONT) or a restart (CR_HOLD_RSTRT), a thread is held until the
 * callbacks of all threads have ended; CR_HOLD_NONE: only until its own have. `scope` says for
 * which threads `flags` are set: the calling one (THREAD; CR_HOLD_DFLT: as INIT says), all that
 * have called cr_init() (INIT), all others (UNINIT). CR_HOLD_READ sets nothing. Everything is
 * CR_HOLD_BOTH and THREAD is CR_HOLD_DFLT, unless changed.
 *
 * A held thread is stopped wherever it was. A callback that needs, after cr_checkpoint(), a lock
 * that such a thread owns would wait for ever: take the lock inside a critical section, or do
 * not hold.
 *
 * Returns the previous flags. Signal-safe. Errors: CR_ENOINIT; EINVAL.
 */
int cr_hold_ctrl(int scope, int flags);

/* --- Critical sections ----------------------------------------------------------------------- */

/*
 * Between cr_enter_cs() and cr_leave_cs() no checkpoint of this process begins and no callback is
 * called: a request waits. They may be nested, and a signal handler may use them whatever it has
 * interrupted. `id` is what cr_init() returned; in a callback it is CR_ID_CALLBACK, and the
 * functions do nothing.
 *
 * cr_enter_cs() waits while a checkpoint is requested or under way, unless the thread is in a
 * critical section already. cr_tryenter_cs() returns 1 instead, and must then not be followed by
 * cr_leave_cs(). Leaving the last critical section of the process takes a waiting checkpoint
 * before cr_leave_cs() returns (if the thread blocks all signals, as soon as it unblocks them; a
 * program under cr_run does not block the checkpoint signal).
 *
 * All return 0. Signal-safe. Errors: CR_ENOINIT; EINVAL, not the id, or not in a critical section.
 */
int cr_enter_cs(cr_client_id_t id);
int cr_tryenter_cs(cr_client_id_t id);
int cr_leave_cs(cr_client_id_t id);

enum {
    CR_STATE_IDLE,    /* no checkpoint */
    CR_STATE_PENDING, /* requested: critical sections or THREAD-context callbacks come first */
    CR_STATE_ACTIVE   /* this thread is in a callback, or the threads are being stopped */
};

/*
 * Returns one of these. Outside critical sections and callbacks it may change at any time.
 * Signal-safe. Errors: CR_ENOINIT.
 */
int cr_status(void);

/*
 * Locks for short sections that handlers and threads share. A handler must not lock what the
 * thread it interrupted may have locked. Signal-safe, and without cr_init().
 */
typedef unsigned int cr_spinlock_t;
#define CR_SPINLOCK_INITIALIZER 0U
void cr_spinlock_init(cr_spinlock_t *lock);
void cr_spinlock_lock(cr_spinlock_t *lock);
void cr_spinlock_unlock(cr_spinlock_t *lock);
int cr_spinlock_trylock(cr_spinlock_t *lock); /* not 0: locked now */

/* --- Requests for a checkpoint --------------------------------------------------------------- */

typedef int cr_version_t;
#define CR_CHECKPOINT_ARGS_VERSION 1
#define CR_RESTART_ARGS_VERSION 1

#define CR_DEST_CWD (-4096) /* cr_fd: context.ID in the working directory */

/* EDEADLK if the caller would be in it; cr_forward_checkpoint() to the caller fails, too. */
#define CR_CHKPT_PROHIBIT_SELF 0x00000001
#define CR_CHKPT_PTRACED_ALLOW 0x00000002 /* save a traced process as any other */
#define CR_CHKPT_PTRACED_SKIP 0x00000004  /* leave it out; neither of the two: CR_EPTRACED */
#define CR_CHKPT_PTRACER_SKIP 0x00000008  /* leave a tracing process out; else CR_EPTRACER */
#define CR_CHKPT_ASYNC_ERR 0x00000010     /* report every error by cr_reap_checkpoint() */
#define CR_CHKPT_DUMP_EXEC 0x0200         /* save the contents of the executable, */
#define CR_CHKPT_DUMP_PRIVATE 0x0400      /* of files that are mapped privately, */
#define CR_CHKPT_DUMP_SHARED 0x0800       /* of files that are mapped shared */
/*
 * The image leaves out what the newest earlier image of the process in its directory has
 * (cr_checkpoint --delta describes the kinds). One of the three; for a file, or CR_DEST_CWD.
 */
#define CR_CHKPT_DELTA_AUTO 0x00010000
#define CR_CHKPT_DELTA_INCREMENTAL 0x00020000
#define CR_CHKPT_DELTA_DIFFERENTIAL 0x00040000
#define CR_CHKPT_DUMP_ALL (CR_CHKPT_DUMP_EXEC | CR_CHKPT_DUMP_PRIVATE | CR_CHKPT_DUMP_SHARED)

typedef struct cr_checkpoint_args {
    cr_version_t cr_version;
    cr_scope_t cr_scope;     /* CR_SCOPE_PROC */
    pid_t cr_target;         /* 0: the caller, or its process group or session */
    int cr_fd;               /* where the image goes, open for writing; or CR_DEST_CWD */
    int cr_signal;           /* sent to the processes when the image is complete; 0: none */
    unsigned int cr_timeout; /* seconds, after which it is given up; 0: none */
    unsigned int cr_flags;   /* CR_CHKPT_* */
} cr_checkpoint_args_t;

/* The request: a descriptor, readable (poll, select, epoll) when it is complete. */
typedef unsigned long cr_checkpoint_handle_t;

/*
 * Sets the defaults, which are in the comments above. Every request needs this call
 * before it. Returns 0. Errors: EINVAL, the library is older than the header.
 */
#define cr_initialize_checkpoint_args_t(args)                                                      \
    cri_init_checkpoint_args_t(CR_CHECKPOINT_ARGS_VERSION, (args))
int cri_init_checkpoint_args_t(cr_version_t version, cr_checkpoint_args_t *args);

/*
 * Requests a checkpoint; the caller may be among the processes. Returns 0, and the request in
 * *handle, which has to be reaped. The caller may continue, even into a critical section. Needs no
 * cr_init().
 *
 * A checkpoint of the calling process alone (CR_SCOPE_PROC) is taken before the call returns, with
 * the state of that moment, if no other checkpoint of the process was under way; the image is
 * complete only when the handle is ready. In a critical section it is CR_STATE_PENDING when the
 * call returns, and is taken when the section is left. If there are THREAD-context callbacks, which
 * run beside the program, the call returns at once, as it does for other processes. A request made
 * in a callback does not wait for another one that saves the same processes.
 *
 * A regular file in cr_fd is replaced by name when the image is complete; the open file is not
 * written to. The image can be opened for writing, and so for the next request, by its owner alone,
 * if the file that it replaces could. In the restored copy the handle exists too, is ready, and is
 * reaped with CR_ERESTARTED. A descriptor in cr_fd leads to /dev/null there, until it is closed:
 * the image is not part of itself.
 *
 * Errors: EINVAL, an argument; EBADF, cr_fd is not open for writing; ESRCH, there is no such
 * process; EPERM, it is another user's; EDEADLK, see above; EBUSY, a callback asks for its own
 * process; ENOENT, Cryo's commands are not where the library is; EAGAIN, no further process is
 * allowed (RLIMIT_NPROC); EMFILE, ENOMEM; CR_ENOSUPPORT as of cr_init(). With CR_CHKPT_ASYNC_ERR
 * those that concern the target and cr_fd come later.
 */
int cr_request_checkpoint(cr_checkpoint_args_t *args, cr_checkpoint_handle_t *handle);

/*
 * Waits until the request is complete, at most for *timeout (NULL: for ever), in which the time
 * left is stored. Returns > 0 when it is, 0 when it is not. This tells nothing about the result.
 * Errors: EINVAL, no such request; EINTR.
 */
int cr_wait_checkpoint(cr_checkpoint_handle_t *handle, struct timeval *timeout);

/*
 * The checkpointer's messages about this request, as lines of text. Copies at most `len` bytes, a
 * NUL at the end among them; may be called any number of times. Returns how many bytes it would
 * take to have all of it, or 0 when there is nothing. Errors: EINVAL, no such request; EFAULT.
 */
int cr_log_checkpoint(cr_checkpoint_handle_t *handle, unsigned int len, char *msg);

/*
 * Returns the result of a request and ends it, unless errno is EAGAIN: it is not complete. Returns
 * > 0 for success. Errors:
 *   CR_ERESTARTED           it succeeded, and this is the restored copy
 *   CR_ETEMPFAIL, CR_EPERMFAIL, or a program's own code: see cr_checkpoint()
 *   ESRCH                   all processes have ended or left themselves out
 *   EIO, ENOSPC, ...        the image could not be written; cr_log_checkpoint() says more
 *   EINVAL                  no such request
 */
int cr_reap_checkpoint(cr_checkpoint_handle_t *handle);

/*
 * All three: waits; unless `msg` is NULL, stores the log there, to be freed by the caller; reaps.
 * Returns > 0 for success and 0 on a timeout. Errors, which say where errno comes from: */
#define CR_POLL_CHKPT_ERR_PRE (-1)  /* cr_wait_checkpoint() */
#define CR_POLL_CHKPT_ERR_POST (-2) /* cr_reap_checkpoint() */
#define CR_POLL_CHKPT_ERR_LOG (-3)  /* cr_log_checkpoint(); the request is still there */
int cr_poll_checkpoint_msg(cr_checkpoint_handle_t *handle, struct timeval *timeout, char **msg);

/* cr_poll_checkpoint_msg() without the log. */
int cr_poll_checkpoint(cr_checkpoint_handle_t *handle, struct timeval *timeout);

/* --- Requests for a restart ------------------------------------------------------------------ */

#define CR_RSTRT_ASYNC_ERR 0x00000001    /* report every error by cr_reap_restart() */
#define CR_RSTRT_RESTORE_PID 0x00000002  /* process and thread ids are the saved ones */
#define CR_RSTRT_RESTORE_PGID 0x00000004 /* process groups are; without RESTORE_PID: of new ids */
#define CR_RSTRT_RESTORE_SID 0x00000008  /* sessions are; a session leader leads its group, too */

#define CR_MAX_RSTRT_RELOC 16 /* pairs */

struct cr_rstrt_relocate_pair {
    const char *oldpath;
    const char *newpath;
};

struct cr_rstrt_relocate {
    unsigned int count;
    CRYO_EXTENSION struct cr_rstrt_relocate_pair path[]; /* `count` of them */
};

#define CR_RSTRT_RELOCATE_SIZE(count)                                                              \
    (sizeof(struct cr_rstrt_relocate) + (count) * sizeof(struct cr_rstrt_relocate_pair))

typedef struct cr_restart_args {
    cr_version_t cr_version;
    int cr_fd;                             /* the image, open for reading */
    int cr_signal;                         /* sent to the processes before they go on; 0: none */
    unsigned int cr_flags;                 /* CR_RSTRT_*; CR_RSTRT_RESTORE_PID */
    struct cr_rstrt_relocate *cr_relocate; /* where files are now, if elsewhere; NULL */
} cr_restart_args_t;

typedef unsigned long cr_restart_handle_t; /* as that of a checkpoint */

/* As cr_initialize_checkpoint_args_t(). */
#define cr_initialize_restart_args_t(args) cri_init_restart_args_t(CR_RESTART_ARGS_VERSION, (args))
int cri_init_restart_args_t(cr_version_t version, cr_restart_args_t *args);

/*
 * Requests a restart. Returns 0 at once, and the request in *handle, which has to be reaped. Needs
 * no cr_init(). Until it is reaped the caller has a child of Cryo's, which a wait() for any child
 * may find.
 *
 * Errors: EINVAL, an argument; EBADF, cr_fd is not open for reading; ENOENT, Cryo's commands are
 * not where the library is; EAGAIN, no further process is allowed (RLIMIT_NPROC); EMFILE,
 * ENOMEM; CR_ENOSUPPORT as of cr_init(). With CR_RSTRT_ASYNC_ERR, EBADF comes later.
 */
int cr_request_restart(cr_restart_args_t *args, cr_restart_handle_t *handle);

/* As those for a checkpoint. cr_reap_restart() returns the pid of the restored process (of the root
 * of a tree): it is a child of the caller's, which has to wait for it. Errors: EBUSY, an id is
 * in use; CR_ERSTRTABRT, a callback failed; others, which the log explains.
 */
int cr_wait_restart(cr_restart_handle_t *handle, struct timeval *timeout);
int cr_log_restart(cr_restart_handle_t *handle, unsigned int len, char *msg);
int cr_reap_restart(cr_restart_handle_t *handle);

#define CR_POLL_RSTRT_ERR_PRE (-1)
#define CR_POLL_RSTRT_ERR_POST (-2)
#define CR_POLL_RSTRT_ERR_LOG (-3)
int cr_poll_restart_msg(cr_restart_handle_t *handle, struct timeval *timeout, char **msg);
int cr_poll_restart(cr_restart_handle_t *handle, struct timeval *timeout);

/* --- Programs that save themselves (not of BLCR) ---------------------------------------------- */

/*
 * For a program that can save its own state and continue from it: images are small, and can be
 * restarted by another build of it, on another kind of machine. `cr_checkpoint --backend=self PID`
 * makes the program save, and makes an image of that; `cr_restart` starts the program as it was
 * started (program file, arguments, environment, working directory, umask) and hands it what it
 * wrote. Neither needs cr_run. Everything else, open files and children too, is the program's own
 * business.
 *
 *     if ((back = cr_self_register(save, restore, &state)) < 0)
 *             ...
 *     for (step = back ? state.step : 0; step < steps; step++) {
 *             cr_self_point();
 *             ...
 *     }
 */

/*
 * Registers the functions in place of earlier ones; a NULL `save` removes them. In a program that
 * cr_restart has started it calls restore() first. Returns 1 if that has been done, else 0.
 *
 * save() writes to `fd`, an empty regular file, and restore() reads from `fd` what save() wrote,
 * from the beginning; both may seek. The descriptor is closed when they return. They return 0, or
 * an errno: then there is no image, and the program goes on, or the restart fails, and the program
 * is killed. What signal handlers and other threads do meanwhile is up to the program.
 *
 * Errors: EINVAL, there is no `restore`; EBUSY, another thread is in cr_self_point(); CR_ENOSUPPORT
 * as of cr_init(); what restore() returned; those of getrandom(2), memfd_create(2), ftruncate(2)
 * and mmap(2), by which it gets a page.
 */
typedef int (*cr_self_function_t)(int fd, void *arg);
int cr_self_register(cr_self_function_t save, cr_self_function_t restore, void *arg);

/*
 * A point at which the program can be saved. To be called often, as once in every step: it costs
 * some nanoseconds, and checks at most every 10 ms whether a checkpoint is wanted. Then it calls
 * save(), and if a signal is to follow, waits until the image is complete. Several threads may
 * call it: one at a time calls save(), the others go on at once.
 *
 * Returns 1 if save() has been called and has succeeded, else 0. Errors: what save() returned.
 */
int cr_self_point(void);

/* --- Calls of BLCR's first releases ---------------------------------------------------------- */

/*
 * A checkpoint of the calling process, into context.PID, a file or a descriptor. They return when
 * it is done, or has failed, and in the restored copy. An earlier image of that name is replaced,
 * even if it is read-only; where the file can neither be replaced nor written, standard error
 * tells.
 */
void cr_request(void) CRYO_DEPRECATED;
void cr_request_file(const char *filename) CRYO_DEPRECATED;
void cr_request_fd(int fd) CRYO_DEPRECATED;

/* For a program that ensures that it is linked with this library: -Wl,-u,cr_link_me. */
extern int cr_link_me;

#ifdef __cplusplus
}
#endif

#endif /* CRYO_LIBCR_H */
