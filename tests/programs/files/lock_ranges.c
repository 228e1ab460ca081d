// SPDX-License-Identifier: Apache-2.0
// Several ranges of POSIX locks, read and write, on a file that is open twice: closing a descriptor
// in the course of a restart must not release them.
#include "probe.h"

static int lock(int fd, int command, short type, off_t start, off_t length)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    if (fcntl(fd, command, &range) != 0) {
        return -1;
    }
    return range.l_type;
}

// The lock that would block a write lock there, as another process sees it.
static int seen_by_another(off_t start)
{
    const pid_t child = PROBE_TRY(fork());
    if (child == 0) {
        _exit(lock(open(probe_path("file"), O_RDWR), F_GETLK, F_WRLCK, start, 1));
    }
    int status;
    PROBE_TRY(waitpid(child, &status, 0));
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    int other = PROBE_TRY(open(probe_path("file"), O_RDONLY));
    PROBE_TRY(write(fd, "0123456789", 10));
    char *mapped = PROBE_MAP(mmap(NULL, 10, PROT_READ, MAP_PRIVATE, fd, 0));
    PROBE_TRY(lock(fd, F_SETLK, F_WRLCK, 0, 4));
    PROBE_TRY(lock(other, F_SETLK, F_RDLCK, 6, 2));
    PROBE_TRY(lock(fd, F_SETLK, F_WRLCK, 100, 0)); // to the end, wherever that is
    do {
        probe_ready();
        PROBE_SABOTAGE("write lock", lock(fd, F_SETLK, F_UNLCK, 0, 4));
        PROBE_SABOTAGE("read lock", lock(fd, F_SETLK, F_UNLCK, 6, 2));
        PROBE_SABOTAGE("open range", lock(fd, F_SETLK, F_UNLCK, 1000, 0));
        probe_equal("write lock", F_WRLCK, seen_by_another(3));
        probe_equal("nothing between", F_UNLCK, seen_by_another(4));
        probe_equal("read lock", F_RDLCK, seen_by_another(7));
        probe_equal("nothing behind", F_UNLCK, seen_by_another(8));
        probe_equal("open range", F_WRLCK, seen_by_another(1000000));
        probe_equal("mapped byte", '3', mapped[3]);
        probe_equal("reading by the other", 1, pread(other, (char[1]){0}, 1, 0));
    } while (probe_more());
    return probe_pass();
}
