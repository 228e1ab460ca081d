// SPDX-License-Identifier: Apache-2.0
// POSIX, OFD and flock locks are still held: another process cannot acquire them.
#include "probe.h"

#include <sys/file.h>

static int lock_fcntl(int fd, int command, short type, off_t start)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = 10};
    return fcntl(fd, command, &lock);
}

static bool another_process_can(bool (*take)(void))
{
    const pid_t child = PROBE_TRY(fork());
    if (child == 0) {
        _exit(take() ? 1 : 0);
    }
    int status;
    PROBE_TRY(waitpid(child, &status, 0));
    return WEXITSTATUS(status) == 1;
}

static bool take_posix(void)
{
    return lock_fcntl(open(probe_path("posix"), O_RDWR), F_SETLK, F_WRLCK, 15) == 0;
}

static bool take_posix_beside(void)
{
    return lock_fcntl(open(probe_path("posix"), O_RDWR), F_SETLK, F_WRLCK, 30) == 0;
}

static bool take_ofd(void)
{
    return lock_fcntl(open(probe_path("ofd"), O_RDWR), F_OFD_SETLK, F_WRLCK, 0) == 0;
}

static bool take_flock(void)
{
    return flock(open(probe_path("flock"), O_RDWR), LOCK_SH | LOCK_NB) == 0;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int posix = PROBE_TRY(open(probe_path("posix"), O_CREAT | O_RDWR, 0600));
    int ofd = PROBE_TRY(open(probe_path("ofd"), O_CREAT | O_RDWR, 0600));
    int whole = PROBE_TRY(open(probe_path("flock"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(lock_fcntl(posix, F_SETLK, F_WRLCK, 10));
    PROBE_TRY(lock_fcntl(ofd, F_OFD_SETLK, F_RDLCK, 0));
    PROBE_TRY(flock(whole, LOCK_EX));
    do {
        probe_ready();
        PROBE_SABOTAGE("posix lock", lock_fcntl(posix, F_SETLK, F_UNLCK, 10));
        PROBE_SABOTAGE("ofd lock", lock_fcntl(ofd, F_OFD_SETLK, F_UNLCK, 0));
        PROBE_SABOTAGE("flock", flock(whole, LOCK_UN));
        probe_equal("posix lock taken by another", false, another_process_can(take_posix));
        probe_equal("range beside it taken", true, another_process_can(take_posix_beside));
        probe_equal("ofd lock taken by another", false, another_process_can(take_ofd));
        probe_equal("flock taken by another", false, another_process_can(take_flock));
    } while (probe_more());
    return probe_pass();
}
