// SPDX-License-Identifier: Apache-2.0
// signalfd: its mask, and a signal that waits in it.
#include "probe.h"

#include <sys/signalfd.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    sigaddset(&mask, SIGRTMIN + 3);
    PROBE_TRY(sigprocmask(SIG_BLOCK, &mask, NULL));
    int fd = PROBE_TRY(signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC));
    do {
        PROBE_TRY(sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 77}));
        probe_ready();
        struct signalfd_siginfo info = {0};
        PROBE_SABOTAGE("waiting signal", read(fd, &info, sizeof info));
        probe_equal("size of the waiting signal", sizeof info, read(fd, &info, sizeof info));
        probe_equal("number of the waiting signal", SIGRTMIN + 3, info.ssi_signo);
        probe_equal("its value", 77, info.ssi_int);
        PROBE_TRY(kill(getpid(), SIGUSR1));
        probe_equal("size of a new signal", sizeof info, read(fd, &info, sizeof info));
        probe_equal("number of a new signal", SIGUSR1, info.ssi_signo);
        probe_equal("no other signal", -1, read(fd, &info, sizeof info));
    } while (probe_more());
    return probe_pass();
}
