// SPDX-License-Identifier: Apache-2.0
// All siginfo bytes that a process has queued for itself with a signal: for each code, also bytes
// that have no meaning for it.
#include "probe.h"

enum { KEPT = 48, FIRST = 34 }; // bytes of siginfo_t that the kernel keeps; SIGRTMIN

static const struct {
    int signal, code;
} kinds[] = {{SIGUSR1, SI_QUEUE},
             {FIRST, SI_USER},
             {FIRST + 1, SI_TKILL},
             {FIRST + 2, -10},
             {FIRST + 3, SI_KERNEL},
             {FIRST + 4, 100},
             {FIRST + 5, 1000},
             {FIRST + 6, SI_MESGQ},
             {FIRST + 7, SI_ASYNCIO},
             {FIRST + 8, SI_SIGIO},
             {SIGCHLD, CLD_KILLED},
             {SIGBUS, BUS_MCEERR_AO},
             {SIGSEGV, SEGV_BNDERR},
             {SIGILL, ILL_ILLOPN},
             {SIGIO, POLL_IN},
             {SIGSYS, 1},
             {SIGTRAP, 6},
             {SIGPIPE, POLL_HUP}};
enum { COUNT = sizeof kinds / sizeof kinds[0] };

static sigset_t all;
static volatile int queued, check;

static void make(siginfo_t *info, unsigned salt, int i)
{
    memset(info, 0, sizeof *info);
    probe_fill(info, KEPT, salt + (unsigned)i);
    info->si_signo = kinds[i].signal;
    info->si_code = kinds[i].code;
}

static void queue(unsigned salt, pid_t tid)
{
    for (int i = 0; i < COUNT; i++) {
        siginfo_t info;
        make(&info, salt, i);
        PROBE_TRY(tid == 0 ? syscall(SYS_rt_sigqueueinfo, getpid(), kinds[i].signal, &info)
                           : syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, kinds[i].signal, &info));
    }
}

static void take(unsigned salt)
{
    const struct timespec now = {0};
    for (int i = 0; i < COUNT; i++) {
        siginfo_t expected, found;
        sigset_t one;
        char what[40];
        memset(&found, 0, sizeof found);
        make(&expected, salt, i);
        snprintf(what, sizeof what, "signal %d with code %d", kinds[i].signal, kinds[i].code);
        sigemptyset(&one);
        sigaddset(&one, kinds[i].signal);
        const uint64_t mask = 1ul << (kinds[i].signal - 1); // the C library alters some codes
        probe_equal(what, kinds[i].signal,
                    syscall(SYS_rt_sigtimedwait, &mask, &found, &now, sizeof mask));
        probe_equal_bytes(what, &expected, &found, KEPT);
    }
}

static void *worker(void *salt)
{
    queue(*(unsigned *)salt, gettid());
    queued = 1;
    probe_await("check", &check);
    take(*(unsigned *)salt);
    return NULL;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    sigfillset(&all);
    sigdelset(&all, SIGRTMAX); // may be used by the checkpointer
    PROBE_ZERO(pthread_sigmask(SIG_SETMASK, &all, NULL));
    do {
        pthread_t thread;
        unsigned of_process = 1000 * probe_cycle(), of_thread = of_process + 500;
        queued = check = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, worker, &of_thread));
        probe_await("thread", &queued);
        queue(of_process, 0);
        probe_ready();
        PROBE_SABOTAGE("signal", of_process++);
        take(of_process);
        check = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
    } while (probe_more());
    return probe_pass();
}
