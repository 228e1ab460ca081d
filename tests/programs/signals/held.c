// SPDX-License-Identifier: Apache-2.0
// The last real-time signal, held by sighold(3) before anything else is done with it.
#include "probe.h"

#include <sys/signalfd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" // sighold is what this is about

static int waits(void)
{
    sigset_t pending;
    PROBE_TRY(sigpending(&pending));
    return sigismember(&pending, SIGRTMAX);
}

int main(int argc, char **argv)
{
    const sigset_t *volatile none = NULL;
    probe_start(argc, argv);
    do {
        sigset_t last;
        siginfo_t info;
        sigemptyset(&last);
        sigaddset(&last, SIGRTMAX);
        PROBE_TRY(sighold(SIGRTMAX));
        PROBE_TRY(raise(SIGRTMAX));
        probe_equal("it is held", 1, waits());
        probe_ready();
        PROBE_SABOTAGE("held", sigwaitinfo(&last, &info));
        probe_equal("it is held still", 1, waits());
        probe_equal("the one that waits", SIGRTMAX, PROBE_TRY(sigwaitinfo(&last, &info)));
        probe_equal("its code, as the library tells it", SI_USER, info.si_code);
        PROBE_TRY(sigrelse(SIGRTMAX));
        probe_true("no set of signals", signalfd(-1, none, 0) < 0 && errno == EFAULT);
    } while (probe_more());
    return probe_pass();
}
