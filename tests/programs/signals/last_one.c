// SPDX-License-Identifier: Apache-2.0
// A program that uses the last real-time signal in every way: with a handler, waiting for it, by a
// descriptor, from a timer; and after executing another program.
#include "probe.h"

#include <sys/signalfd.h>

static volatile sig_atomic_t seen, code;
static sigset_t last;

static void handler(int number, siginfo_t *info, void *context)
{
    (void)context;
    seen += number == SIGRTMAX;
    code = info->si_code;
}

static void expect(const char *what, int expected_code)
{
    probe_equal(what, 1, seen);
    probe_equal(what, expected_code, code);
    seen = 0;
}

static void by_handler(void)
{
    const struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    struct sigaction found;
    PROBE_TRY(sigaction(SIGRTMAX, NULL, &found));
    probe_true("handler", found.sa_sigaction == handler);
    PROBE_ZERO(pthread_sigmask(SIG_UNBLOCK, &last, NULL));
    PROBE_TRY(raise(SIGRTMAX));
    expect("raised", SI_TKILL);
    PROBE_TRY(kill(getpid(), SIGRTMAX));
    expect("sent", SI_USER);
    PROBE_TRY(sigqueue(getpid(), SIGRTMAX, (union sigval){.sival_int = 3}));
    expect("queued", SI_QUEUE);
    PROBE_TRY(sigaction(SIGRTMAX, &action, NULL));
    PROBE_ZERO(pthread_sigmask(SIG_BLOCK, &last, NULL));
}

static void by_timer(void)
{
    timer_t timer;
    siginfo_t info;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMAX};
    const struct itimerspec soon = {.it_value = {.tv_nsec = 1000}};
    PROBE_TRY(timer_create(CLOCK_MONOTONIC, &event, &timer));
    PROBE_TRY(timer_settime(timer, 0, &soon, NULL));
    probe_equal("waited for", SIGRTMAX, sigwaitinfo(&last, &info));
    probe_equal("code of the timer", SI_TIMER, info.si_code);
    PROBE_TRY(timer_delete(timer));
}

static void by_descriptor(int queue)
{
    struct signalfd_siginfo info;
    PROBE_TRY(raise(SIGRTMAX));
    probe_equal("bytes read", sizeof info, read(queue, &info, sizeof info));
    probe_equal("read", SIGRTMAX, info.ssi_signo);
}

static void pending(int value)
{
    siginfo_t info;
    const struct timespec now = {0};
    probe_equal("pending signal", SIGRTMAX, sigtimedwait(&last, &info, &now));
    probe_equal("its value", value, info.si_value.sival_int);
    probe_equal("another one", -1, sigtimedwait(&last, &info, &now));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    if (getenv("LAST_ONE_EXECUTED") == NULL) {
        // The executing program has used the signal, too.
        PROBE_TRY(setenv("LAST_ONE_EXECUTED", "1", 1));
        const struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
        PROBE_TRY(sigaction(SIGRTMAX, &action, NULL));
        PROBE_TRY(raise(SIGRTMAX));
        expect("raised before", SI_TKILL);
        PROBE_TRY(execv("/proc/self/exe", argv));
    }
    sigset_t blocked;
    PROBE_ZERO(pthread_sigmask(SIG_BLOCK, NULL, &blocked));
    for (int number = 1; number < SIGRTMAX; number++) {
        probe_true("nothing is blocked", sigismember(&blocked, number) != 1);
    }
    const struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigemptyset(&last);
    sigaddset(&last, SIGRTMAX);
    PROBE_ZERO(pthread_sigmask(SIG_BLOCK, &last, NULL));
    PROBE_TRY(sigaction(SIGRTMAX, &action, NULL));
    const int queue = PROBE_TRY(signalfd(-1, &last, SFD_NONBLOCK));
    do {
        const int value = (int)probe_cycle();
        PROBE_TRY(sigqueue(getpid(), SIGRTMAX, (union sigval){.sival_int = value}));
        probe_ready();
        PROBE_SABOTAGE("pending", sigwaitinfo(&last, NULL));
        pending(value);
        by_handler();
        by_timer();
        by_descriptor(queue);
    } while (probe_more());
    return probe_pass();
}
