// SPDX-License-Identifier: Apache-2.0
// A directory whose changes are signalled to the program (F_NOTIFY).
#include "probe.h"

static volatile sig_atomic_t told_of = -1;

static void on_change(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    told_of = info->si_fd;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sigaction action = {.sa_sigaction = on_change, .sa_flags = SA_SIGINFO | SA_RESTART};
    PROBE_TRY(sigaction(SIGRTMIN + 2, &action, NULL));
    PROBE_TRY(mkdir(probe_path("watched"), 0700));
    const int fd = (int)PROBE_TRY(open(probe_path("watched"), O_RDONLY | O_DIRECTORY));
    PROBE_TRY(fcntl(fd, F_SETSIG, SIGRTMIN + 2));
    if (fcntl(fd, F_NOTIFY, DN_CREATE | DN_MULTISHOT) != 0) {
        probe_lacks("dnotify");
    }
    do {
        char name[32];
        snprintf(name, sizeof name, "watched/%u", probe_cycle());
        probe_ready();
        PROBE_SABOTAGE("request", fcntl(fd, F_NOTIFY, 0));
        told_of = -1;
        PROBE_TRY(close((int)PROBE_TRY(open(probe_path(name), O_CREAT | O_WRONLY, 0600))));
        probe_equal("request: descriptor that the signal names", fd, told_of);
    } while (probe_more());
    return probe_pass();
}
