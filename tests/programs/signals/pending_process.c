// SPDX-License-Identifier: Apache-2.0
// Signals pending for the whole process, with their siginfo.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    sigset_t mask;
    sigfillset(&mask);
    sigdelset(&mask, SIGRTMAX); // may be used by the checkpointer
    PROBE_ZERO(pthread_sigmask(SIG_SETMASK, &mask, NULL));
    const struct timespec now = {0};
    do {
        siginfo_t info;
        const pid_t sender = getpid();
        PROBE_TRY(sigqueue(sender, SIGUSR1, (union sigval){.sival_ptr = &info}));
        PROBE_TRY(kill(sender, SIGTERM));
        probe_ready();
        sigset_t pending, usr1;
        sigemptyset(&usr1);
        sigaddset(&usr1, SIGUSR1);
        PROBE_SABOTAGE("pending", sigtimedwait(&usr1, &info, &now));
        PROBE_TRY(sigpending(&pending));
        probe_equal("SIGUSR1 pending", 1, sigismember(&pending, SIGUSR1));
        probe_equal("SIGTERM pending", 1, sigismember(&pending, SIGTERM));
        probe_equal("SIGHUP pending", 0, sigismember(&pending, SIGHUP));
        probe_equal("taking SIGUSR1", SIGUSR1, sigtimedwait(&usr1, &info, &now));
        probe_equal("code of SIGUSR1", SI_QUEUE, info.si_code);
        probe_equal("sender of SIGUSR1", sender, info.si_pid);
        probe_equal("user of the sender", getuid(), info.si_uid);
        probe_true("value of SIGUSR1", info.si_value.sival_ptr == &info);
        sigset_t term;
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        probe_equal("taking SIGTERM", SIGTERM, sigtimedwait(&term, &info, &now));
        probe_equal("code of SIGTERM", SI_USER, info.si_code);
    } while (probe_more());
    return probe_pass();
}
