/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The capsule's program. It loads the stock MPI library, passes its functions to the host, and
 * parks: from then on the program's threads run the library's functions on their own stacks, with
 * the thread-local storage of this world.
 *
 * libc functions defined here take precedence over libc's in every library loaded here.
 */
#define _GNU_SOURCE
#include "mpi/capsule/boundary.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_THREADS 1024
#define DONOR_STACK (128 * 1024)

static const struct cryo_host *host;
static void *library;

/* The host stores here the program's FS base of the thread that runs with this storage. */
static __thread void *way_back;

/* Threads block all signals, so that the kernel never delivers the program's signals to them. */

static _Atomic int threads[MOST_THREADS];

struct beginning {
    void *(*function)(void *);
    void *argument;
};

static int is_alive(int tid)
{
    return syscall(SYS_tgkill, getpid(), tid, 0) == 0;
}

/* The thread's slot, or NULL if all are taken. The slot of a dead thread is reused. */
static _Atomic int *remember_thread(int tid)
{
    for (int i = 0; i < MOST_THREADS; i++) {
        int before = atomic_load(&threads[i]);
        if (before != 0 && is_alive(before))
            continue;
        if (atomic_compare_exchange_strong(&threads[i], &before, tid))
            return &threads[i];
    }
    return NULL;
}

/* A thread of the program may get the same id later, and would then be left out of images. */
static void forget_thread(void *slot)
{
    if (slot != NULL)
        atomic_store((_Atomic int *)slot, 0);
}

static void *run_thread(void *data)
{
    struct beginning beginning = *(struct beginning *)data;
    free(data);
    void *result;
    pthread_cleanup_push(forget_thread, remember_thread(gettid()));
    result = beginning.function(beginning.argument);
    pthread_cleanup_pop(1);
    return result;
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                   void *(*function)(void *), void *restrict argument)
{
    static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (create == NULL)
        create = dlsym(RTLD_NEXT, "pthread_create");
    struct beginning *beginning = malloc(sizeof(*beginning));
    if (beginning == NULL)
        return EAGAIN;
    beginning->function = function;
    beginning->argument = argument;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = create(thread, attributes, run_thread, beginning);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        free(beginning);
    return error;
}

static int thread_at(int position)
{
    return position < MOST_THREADS ? atomic_load(&threads[position]) : -1;
}

/* Donors: parked threads whose storage is lent to further threads of the program. */

static _Atomic int donors_may_go;
static pthread_t donors[MOST_THREADS];
static int donor_count;

struct donor {
    _Atomic int ready;
    void *fs;
};

static void *be_donor(void *data)
{
    struct donor *self = data;
    __asm__("mov %%fs:0x10, %0" : "=r"(self->fs));
    atomic_store(&self->ready, 1);
    syscall(SYS_futex, &self->ready, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    while (!atomic_load(&donors_may_go))
        syscall(SYS_futex, &donors_may_go, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return NULL;
}

/* Must not be called by two threads at once. */
static void *add_donor(void)
{
    struct donor self = {0};
    pthread_attr_t attributes;
    if (donor_count == MOST_THREADS)
        return NULL;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, DONOR_STACK);
    const int error = pthread_create(&donors[donor_count], &attributes, be_donor, &self);
    pthread_attr_destroy(&attributes);
    if (error != 0)
        return NULL;
    donor_count++;
    while (!atomic_load(&self.ready))
        syscall(SYS_futex, &self.ready, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return self.fs;
}

static void flush(void)
{
    fflush(NULL);
}

static void end(void)
{
    atomic_store(&donors_may_go, 1);
    syscall(SYS_futex, &donors_may_go, FUTEX_WAKE_PRIVATE, MOST_THREADS, NULL, NULL, 0);
    for (int i = 0; i < donor_count; i++)
        pthread_join(donors[i], NULL);
    dlclose(library);
    fflush(NULL);
}

/* libucm and OPAL make system calls by number, which this routes through the hooks. */
long syscall(long number, ...)
{
    long arguments[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    const long result = host->system_call(number, arguments);
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

/* When a library calls exit, the program exits through its own exit(). */
void exit(int status)
{
    host->gives_up();
    fflush(NULL);
    host->exit(status);
    _exit(status);
}

/* Open MPI's, of MPI_Abort and of errors that nobody handles: before its launcher hears of it. */
int ompi_mpi_abort(void *comm, int code)
{
    int (*theirs)(void *, int) = dlsym(library, "ompi_mpi_abort");
    host->gives_up();
    return theirs(comm, code);
}

static void *symbol(const char *name)
{
    return dlsym(library, name);
}

int main(int argc, char **argv)
{
    static struct cryo_guest guest = {
        .symbol = symbol,
        .add_donor = add_donor,
        .flush = flush,
        .end = end,
        .thread_at = thread_at,
    };
    (void)argc;
    host = (const struct cryo_host *)strtoul(argv[1], NULL, 16);
    char *fs;
    __asm__("mov %%fs:0x10, %0" : "=r"(fs));
    guest.way_back = (char *)&way_back - fs;
    library = dlopen(host->library, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
        guest.error = dlerror();
    host->park(&guest);
    return 0;
}
