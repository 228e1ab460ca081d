// SPDX-License-Identifier: Apache-2.0
// pause(2) and sigsuspend(2) return on the program's own signal, not before.
#include "probe.h"

static volatile sig_atomic_t handled;

static void count(int number)
{
    (void)number;
    __atomic_add_fetch(&handled, 1, __ATOMIC_ACQ_REL); // in several threads at once
}

static long call_pause(void *unused)
{
    (void)unused;
    return pause();
}

static long call_suspend(void *mask)
{
    return sigsuspend(mask);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    signal(SIGUSR1, count);
    signal(SIGUSR2, count);
    sigset_t usr2, without_usr2;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    PROBE_ZERO(pthread_sigmask(SIG_BLOCK, &usr2, &without_usr2));
    do {
        struct probe_sleeper pausing, suspended;
        handled = 0;
        probe_sleep_in(&pausing, SYS_pause, call_pause, NULL);
        probe_sleep_in(&suspended, SYS_rt_sigsuspend, call_suspend, &without_usr2);
        probe_ready();
        PROBE_SABOTAGE("pause", pthread_kill(pausing.thread, SIGUSR1);
                       probe_await("end", &pausing.done));
        probe_still_asleep("pause", &pausing);
        probe_still_asleep("sigsuspend", &suspended);
        PROBE_ZERO(pthread_kill(pausing.thread, SIGUSR1));
        PROBE_ZERO(pthread_kill(suspended.thread, SIGUSR2));
        probe_woken("pause", &pausing, -1, EINTR);
        probe_woken("sigsuspend", &suspended, -1, EINTR);
        probe_equal("signals handled", 2, handled);
    } while (probe_more());
    return probe_pass();
}
