// SPDX-License-Identifier: Apache-2.0
// Signals pending for one thread, not for another.
#include "probe.h"

static volatile int blocked, check;
static sigset_t usr2;

static void *worker(void *unused)
{
    siginfo_t info;
    const struct timespec now = {0};
    blocked = 1;
    probe_await("check", &check);
    PROBE_SABOTAGE("pending", sigtimedwait(&usr2, NULL, &now));
    sigset_t pending;
    PROBE_TRY(sigpending(&pending));
    probe_equal("SIGUSR2 pending for the thread", 1, sigismember(&pending, SIGUSR2));
    probe_equal("taking it", SIGUSR2, sigtimedwait(&usr2, &info, &now));
    probe_equal("its code, as the library tells it", SI_USER, info.si_code);
    probe_equal("its sender", getpid(), info.si_pid);
    probe_equal("taking it again", -1, sigtimedwait(&usr2, &info, &now));
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    PROBE_ZERO(pthread_sigmask(SIG_BLOCK, &usr2, NULL));
    do {
        pthread_t thread;
        blocked = check = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, worker, NULL));
        probe_await("thread", &blocked);
        PROBE_ZERO(pthread_kill(thread, SIGUSR2));
        probe_ready();
        sigset_t pending;
        PROBE_TRY(sigpending(&pending));
        probe_equal("SIGUSR2 pending for main", 0, sigismember(&pending, SIGUSR2));
        check = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
    } while (probe_more());
    return probe_pass();
}
