// SPDX-License-Identifier: Apache-2.0
// sigwaitinfo and sigtimedwait take a signal that is sent afterwards, with its value.
#include "probe.h"

static long call_wait(void *set)
{
    siginfo_t info;
    const int number = sigwaitinfo(set, &info);
    return number > 0 ? number * 1000 + info.si_value.sival_int : number;
}

static long call_timed(void *set)
{
    siginfo_t info;
    const int number = sigtimedwait(set, &info, &(struct timespec){.tv_sec = 86400});
    return number > 0 ? number * 1000 + info.si_value.sival_int : number;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    sigset_t one, two, both;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigemptyset(&two);
    sigaddset(&two, SIGRTMIN + 4);
    sigorset(&both, &one, &two);
    PROBE_ZERO(pthread_sigmask(SIG_BLOCK, &both, NULL));
    do {
        struct probe_sleeper waiting, timed;
        probe_sleep_in(&waiting, SYS_rt_sigtimedwait, call_wait, &one);
        probe_sleep_in(&timed, SYS_rt_sigtimedwait, call_timed, &two);
        probe_ready();
        PROBE_SABOTAGE("sigtimedwait", pthread_kill(timed.thread, SIGRTMIN + 4);
                       probe_await("end", &timed.done));
        probe_still_asleep("sigwaitinfo", &waiting);
        probe_still_asleep("sigtimedwait", &timed);
        PROBE_TRY(sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 5}));
        PROBE_TRY(sigqueue(getpid(), SIGRTMIN + 4, (union sigval){.sival_int = 6}));
        probe_woken("sigwaitinfo", &waiting, SIGUSR1 * 1000 + 5, 0);
        probe_woken("sigtimedwait", &timed, (SIGRTMIN + 4) * 1000 + 6, 0);
    } while (probe_more());
    return probe_pass();
}
