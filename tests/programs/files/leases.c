// SPDX-License-Identifier: Apache-2.0
// Leases, for reading and for writing: they are held, and an open that breaks one is told by the
// signal that the program has chosen. One that is being broken stays so, without a second signal.
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

// By an open that does not wait.
static void break_it(const char *name, int fd, int access)
{
    const struct timespec patience = {60, 0};
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, TOLD_BY);
    probe_true("an open that breaks it",
               open(probe_path(name), access | O_NONBLOCK) < 0 && errno == EWOULDBLOCK);
    probe_equal("signal of the break", TOLD_BY, PROBE_TRY(sigtimedwait(&set, &info, &patience)));
    probe_equal("descriptor of the break", fd, info.si_fd);
}

static void check_kind(const char *name, int fd, int how)
{
    char what[64];
    snprintf(what, sizeof(what), "lease of \"%s\"", name);
    probe_equal(what, how, fcntl(fd, F_GETLEASE));
}

static void give_up(const char *name, int fd)
{
    PROBE_TRY(fcntl(fd, F_SETLEASE, F_UNLCK));
    close((int)PROBE_TRY(open(probe_path(name), O_WRONLY)));
    close(fd);
}

static void check(const char *name, int fd, int how)
{
    check_kind(name, fd, how);
    break_it(name, fd, O_WRONLY);
    give_up(name, fd);
}

static void check_broken(const char *name, int fd, int how)
{
    sigset_t pending;
    check_kind(name, fd, how);
    probe_true("an open while it is being broken",
               open(probe_path(name), (how == F_UNLCK ? O_WRONLY : O_RDONLY) | O_NONBLOCK) < 0 &&
                   errno == EWOULDBLOCK);
    PROBE_TRY(sigpending(&pending));
    probe_true("no second signal", !sigismember(&pending, TOLD_BY));
    give_up(name, fd);
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
        const int given_up = leased("given up", O_RDONLY, F_RDLCK);
        const int given_up_writing = leased("given up, writing", O_RDWR, F_WRLCK);
        const int lowered = leased("lowered", O_WRONLY, F_WRLCK);
        break_it("given up", given_up, O_WRONLY);
        break_it("given up, writing", given_up_writing, O_WRONLY);
        break_it("lowered", lowered, O_RDONLY);
        probe_ready();
        PROBE_SABOTAGE("lowered", fcntl(lowered, F_SETLEASE, F_UNLCK));
        PROBE_SABOTAGE("read", fcntl(reading, F_SETLEASE, F_UNLCK));
        PROBE_SABOTAGE("write", fcntl(writing, F_SETLEASE, F_UNLCK));
        check("read", reading, F_RDLCK);
        check("write", writing, F_WRLCK);
        check_broken("given up", given_up, F_UNLCK);
        check_broken("given up, writing", given_up_writing, F_UNLCK);
        check_broken("lowered", lowered, F_RDLCK);
    } while (probe_more());
    return probe_pass();
}
