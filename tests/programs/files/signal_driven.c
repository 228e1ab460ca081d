// SPDX-License-Identifier: Apache-2.0
// F_SETOWN and F_SETSIG of a pipe with O_ASYNC: data raises the chosen signal.
#include "probe.h"

static volatile sig_atomic_t from_fd = -1;

static void on_data(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    from_fd = info->si_fd;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sigaction action = {.sa_sigaction = on_data, .sa_flags = SA_SIGINFO | SA_RESTART};
    PROBE_TRY(sigaction(SIGRTMIN + 2, &action, NULL));
    int ends[2];
    PROBE_TRY(pipe(ends));
    PROBE_TRY(fcntl(ends[0], F_SETOWN, getpid()));
    PROBE_TRY(fcntl(ends[0], F_SETSIG, SIGRTMIN + 2));
    PROBE_TRY(fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK));
    do {
        probe_ready();
        PROBE_SABOTAGE("signal", fcntl(ends[0], F_SETSIG, 0));
        PROBE_SABOTAGE("owner", fcntl(ends[0], F_SETOWN, 0));
        probe_equal("signal of the descriptor", SIGRTMIN + 2, fcntl(ends[0], F_GETSIG));
        probe_equal("owner of the descriptor", getpid(), fcntl(ends[0], F_GETOWN));
        from_fd = -1;
        PROBE_TRY(write(ends[1], "x", 1));
        probe_equal("descriptor named by the signal", ends[0], from_fd);
        char byte;
        PROBE_TRY(read(ends[0], &byte, 1));
    } while (probe_more());
    return probe_pass();
}
