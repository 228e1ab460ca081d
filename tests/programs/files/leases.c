// SPDX-License-Identifier: Apache-2.0
// Leases, for reading and for writing: they are held, and an open that breaks one is told by the
// signal that the program has chosen.
#include "probe.h"

enum { TOLD_BY = SIGUSR1 };

static int leased(const char *name, int flags, int how)
{
    const int fd = (int)PROBE_TRY(open(probe_path(name), flags | O_CREAT, 0600));
    PROBE_TRY(fcntl(fd, F_SETSIG, TOLD_BY));
    if (fcntl(fd, F_SETLEASE, how) < 0 && (errno == EINVAL || errno == ENOLCK)) {
        probe_lacks("leases");
    }
    probe_equal("lease", how, fcntl(fd, F_GETLEASE));
    return fd;
}

// Checks the lease, and breaks it by an open that does not wait.
static void check(const char *name, int fd, int how)
{
    const struct timespec patience = {60, 0};
    sigset_t set;
    siginfo_t info;
    char what[64];
    sigemptyset(&set);
    sigaddset(&set, TOLD_BY);
    snprintf(what, sizeof(what), "lease of \"%s\"", name);
    probe_equal(what, how, fcntl(fd, F_GETLEASE));
    probe_true("an open that breaks it",
               open(probe_path(name), O_WRONLY | O_NONBLOCK) < 0 && errno == EWOULDBLOCK);
    probe_equal("signal of the break", TOLD_BY, PROBE_TRY(sigtimedwait(&set, &info, &patience)));
    probe_equal("descriptor of the break", fd, info.si_fd);
    PROBE_TRY(fcntl(fd, F_SETLEASE, F_UNLCK));
    close((int)PROBE_TRY(open(probe_path(name), O_WRONLY)));
    close(fd);
}

int main(int argc, char **argv)
{
    sigset_t set;
    probe_start(argc, argv);
    sigemptyset(&set);
    sigaddset(&set, TOLD_BY);
    PROBE_TRY(sigprocmask(SIG_BLOCK, &set, NULL));
    do {
        const int reading = leased("read", O_RDONLY, F_RDLCK);
        const int writing = leased("write", O_RDWR, F_WRLCK);
        probe_ready();
        PROBE_SABOTAGE("read", fcntl(reading, F_SETLEASE, F_UNLCK));
        PROBE_SABOTAGE("write", fcntl(writing, F_SETLEASE, F_UNLCK));
        check("read", reading, F_RDLCK);
        check("write", writing, F_WRLCK);
    } while (probe_more());
    return probe_pass();
}
