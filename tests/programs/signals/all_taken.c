// SPDX-License-Identifier: Apache-2.0
// A program that resets, blocks and waits for every signal, by the C library's functions.
#include "probe.h"

#include <sys/signalfd.h>

static sigset_t all;
static volatile int waiting;
static volatile sig_atomic_t in_handler, leave;

static void *waiter(void *result)
{
    siginfo_t info;
    waiting = gettid();
    *(int *)result = sigwaitinfo(&all, &info);
    return NULL;
}

static void stay(int number)
{
    (void)number;
    in_handler = 1;
    while (!leave) {
        sched_yield();
    }
}

static void *interrupted(void *unused)
{
    sigset_t none;
    sigemptyset(&none);
    PROBE_ZERO(pthread_sigmask(SIG_SETMASK, &none, NULL));
    PROBE_TRY(raise(SIGUSR2));
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    for (int number = 1; number <= SIGRTMAX; number++) {
        const struct sigaction usual = {.sa_handler = SIG_DFL};
        (void)sigaction(number, &usual, NULL);
        (void)signal(number, SIG_DFL);
    }
    sigfillset(&all);
    const struct sigaction action = {.sa_handler = stay, .sa_mask = all};
    PROBE_TRY(sigaction(SIGUSR2, &action, NULL));
    PROBE_ZERO(pthread_sigmask(SIG_SETMASK, &all, NULL));
    const int queue = PROBE_TRY(signalfd(-1, &all, SFD_NONBLOCK));
    close(queue); // a checkpointer may refuse an open one
    do {
        pthread_t thread, other;
        int taken = 0;
        waiting = in_handler = leave = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, waiter, &taken));
        PROBE_ZERO(pthread_create(&other, NULL, interrupted, NULL));
        probe_await("handler", (const volatile int *)&in_handler);
        probe_await("thread", &waiting);
        probe_await_blocked(waiting, SYS_rt_sigtimedwait);
        probe_ready();
        sigset_t mask;
        struct sigaction found;
        PROBE_SABOTAGE("SIGUSR1", sigdelset(&all, SIGUSR1);
                       PROBE_ZERO(pthread_sigmask(SIG_SETMASK, &all, NULL)));
        PROBE_ZERO(pthread_sigmask(SIG_SETMASK, NULL, &mask));
        probe_equal("SIGUSR1 blocked", 1, sigismember(&mask, SIGUSR1));
        probe_equal("SIGTERM blocked", 1, sigismember(&mask, SIGTERM));
        PROBE_TRY(sigaction(SIGUSR2, NULL, &found));
        for (int number = 1; number <= SIGRTMAX; number++) {
            if (number == SIGKILL || number == SIGSTOP) {
                continue; // the kernel never blocks these
            }
            probe_equal("signal in the handler's mask", sigismember(&action.sa_mask, number),
                        sigismember(&found.sa_mask, number));
        }
        leave = 1;
        PROBE_ZERO(pthread_join(other, NULL));
        PROBE_ZERO(pthread_kill(thread, SIGUSR1));
        PROBE_ZERO(pthread_join(thread, NULL));
        probe_equal("signal waited for", SIGUSR1, taken);
    } while (probe_more());
    return probe_pass();
}
