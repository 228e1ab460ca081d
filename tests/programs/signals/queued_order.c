// SPDX-License-Identifier: Apache-2.0
// Queued real-time signals: all of them, in order, each with its value.
#include "probe.h"

enum { EACH = 20, KINDS = 3 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    sigset_t mask;
    sigemptyset(&mask);
    for (int kind = 0; kind < KINDS; kind++) {
        sigaddset(&mask, SIGRTMIN + kind);
    }
    PROBE_ZERO(pthread_sigmask(SIG_BLOCK, &mask, NULL));
    const struct timespec now = {0};
    do {
        for (int i = 0; i < EACH; i++) {
            for (int kind = KINDS - 1; kind >= 0; kind--) {
                PROBE_TRY(sigqueue(getpid(), SIGRTMIN + kind,
                                   (union sigval){.sival_int = i * 10 + kind}));
            }
        }
        probe_ready();
        siginfo_t info;
        PROBE_SABOTAGE("queued", sigtimedwait(&mask, &info, &now));
        for (int kind = 0; kind < KINDS; kind++) { // lowest number first
            for (int i = 0; i < EACH; i++) {
                probe_equal("number of a queued signal", SIGRTMIN + kind,
                            sigtimedwait(&mask, &info, &now));
                probe_equal("value of a queued signal", i * 10 + kind, info.si_value.sival_int);
            }
        }
        probe_equal("one queued too many", -1, sigtimedwait(&mask, &info, &now));
    } while (probe_more());
    return probe_pass();
}
