// SPDX-License-Identifier: Apache-2.0
// File locks between members: a POSIX lock of the child, and a flock that both share.
#include "probe.h"

#include <sys/file.h>

static int posix, whole;
static struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 50};

static void child(void)
{
    PROBE_TRY(fcntl(posix, F_SETLK, &lock));
    probe_await_check();
    struct flock none = lock;
    none.l_type = F_UNLCK;
    PROBE_SABOTAGE("lock", fcntl(posix, F_SETLK, &none));
    probe_await_blocked(getppid(), SYS_fcntl); // until the parent waits for the lock
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    posix = PROBE_TRY(open(probe_path("posix"), O_CREAT | O_RDWR, 0600));
    whole = PROBE_TRY(open(probe_path("flock"), O_CREAT | O_RDWR, 0600));
    do {
        PROBE_TRY(flock(whole, LOCK_EX));
        const pid_t member = probe_fork(child);
        probe_ready();
        struct flock seen = lock;
        PROBE_TRY(fcntl(posix, F_GETLK, &seen));
        if (probe_sabotaged("lock")) {
            while (seen.l_type == F_WRLCK) {
                seen = lock;
                PROBE_TRY(fcntl(posix, F_GETLK, &seen));
            }
        }
        probe_equal("type of the child's lock", F_WRLCK, seen.l_type);
        probe_equal("owner of the child's lock", member, seen.l_pid);
        probe_equal("start of the child's lock", 100, seen.l_start);
        int other = PROBE_TRY(open(probe_path("flock"), O_RDWR));
        probe_equal("the shared flock", -1, flock(other, LOCK_SH | LOCK_NB));
        close(other);
        struct flock wanted = lock;
        probe_equal("lock after the child", 0, fcntl(posix, F_SETLKW, &wanted));
        probe_reap("child", member);
        wanted.l_type = F_UNLCK;
        PROBE_TRY(fcntl(posix, F_SETLK, &wanted));
    } while (probe_more());
    return probe_pass();
}
