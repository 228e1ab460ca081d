// SPDX-License-Identifier: Apache-2.0
// ppoll, pselect, epoll_pwait and epoll_pwait2 with their own signal mask: the signal that is
// blocked outside interrupts them, and is blocked again afterwards.
#include "probe.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

enum { SLEEPERS = 4, NUMBER_OF_EPOLL_PWAIT2 = 441 };

static volatile sig_atomic_t handled;
static int set;

static void count(int number)
{
    (void)number;
    __atomic_add_fetch(&handled, 1, __ATOMIC_ACQ_REL); // in several threads at once
}

static long blocked_again(long result)
{
    sigset_t mask;
    const int error = errno;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    errno = error;
    return sigismember(&mask, SIGUSR1) == 1 ? result : -3;
}

static long call_ppoll(void *mask)
{
    return blocked_again(ppoll(NULL, 0, NULL, mask));
}

static long call_pselect(void *mask)
{
    return blocked_again(pselect(0, NULL, NULL, NULL, NULL, mask));
}

static long call_epoll(void *mask)
{
    struct epoll_event event;
    return blocked_again(epoll_pwait(set, &event, 1, -1, mask));
}

static long call_epoll2(void *mask)
{
    struct epoll_event event;
    return blocked_again(epoll_pwait2(set, &event, 1, NULL, mask));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    signal(SIGUSR1, count);
    set = PROBE_TRY(epoll_create1(0));
    sigset_t usr1, none;
    sigemptyset(&none);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    PROBE_ZERO(pthread_sigmask(SIG_BLOCK, &usr1, NULL));
    do {
        struct probe_sleeper sleepers[SLEEPERS];
        const char *names[] = {"ppoll", "pselect", "epoll_pwait", "epoll_pwait2"};
        handled = 0;
        probe_sleep_in(&sleepers[0], SYS_ppoll, call_ppoll, &none);
        probe_sleep_in(&sleepers[1], SYS_pselect6, call_pselect, &none);
        probe_sleep_in(&sleepers[2], SYS_epoll_pwait, call_epoll, &none);
        probe_sleep_in(&sleepers[3], NUMBER_OF_EPOLL_PWAIT2, call_epoll2, &none);
        probe_ready();
        PROBE_SABOTAGE("ppoll", pthread_kill(sleepers[0].thread, SIGUSR1);
                       probe_await("end", &sleepers[0].done));
        for (int i = 0; i < SLEEPERS; i++) {
            probe_still_asleep(names[i], &sleepers[i]);
            PROBE_ZERO(pthread_kill(sleepers[i].thread, SIGUSR1));
            probe_woken(names[i], &sleepers[i], -1, EINTR);
        }
        probe_equal("signals handled", SLEEPERS, handled);
    } while (probe_more());
    return probe_pass();
}
