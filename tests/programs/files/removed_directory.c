// SPDX-License-Identifier: Apache-2.0
// A working directory that was removed, and that is open, too, with its name; another one that is
// only open; and one whose name only looks like that of a removed one.
#include "probe.h"

#include <dirent.h>
#include <limits.h>

static int open_directory(const char *path)
{
    PROBE_TRY(mkdir(path, 0750));
    return (int)PROBE_TRY(open(path, O_RDONLY | O_DIRECTORY));
}

static struct stat of(int fd)
{
    struct stat status;
    PROBE_TRY(fstat(fd, &status));
    return status;
}

static void tells_name(int fd, const char *path)
{
    char link[40], expected[PATH_MAX + 16], found[PATH_MAX + 16];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    snprintf(expected, sizeof expected, "%s (deleted)", path);
    const ssize_t size = PROBE_TRY(readlink(link, found, sizeof found - 1));
    found[size] = 0;
    probe_equal_text("what /proc tells of its name", expected, found);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        struct stat status;
        char entries[1024];
        const char *own = probe_path("own");
        const char *other = probe_path("other");
        const char *named = probe_path("named (deleted)");
        const int before = (int)PROBE_TRY(open(".", O_PATH | O_DIRECTORY));
        const int open_own = open_directory(own);
        const int open_other = open_directory(other);
        const int open_named = open_directory(named);
        PROBE_TRY(chdir(own));
        PROBE_TRY(rmdir(own));
        PROBE_TRY(rmdir(other));
        probe_ready();
        PROBE_SABOTAGE("working directory", PROBE_TRY(fchdir(before)));
        PROBE_SABOTAGE("open directory", dup2(before, open_other));
        PROBE_TRY(stat(".", &status));
        probe_equal("links of the working directory", 0, (long long)status.st_nlink);
        probe_equal("mode of the working directory", 0750, status.st_mode & 07777);
        probe_equal("the working directory is the open one", (long long)of(open_own).st_ino,
                    (long long)status.st_ino);
        probe_true("its name", getcwd(entries, sizeof(entries)) == NULL && errno == ENOENT);
        probe_true("a file in it", open("file", O_CREAT | O_RDWR, 0600) < 0 && errno == ENOENT);
        probe_equal("links of the open directory", 0, (long long)of(open_other).st_nlink);
        probe_true("two directories", of(open_own).st_ino != of(open_other).st_ino);
        probe_true("entries", syscall(SYS_getdents64, open_other, entries, sizeof(entries)) < 0 &&
                                  errno == ENOENT);
        tells_name(open_own, own);
        tells_name(open_other, other);
        PROBE_TRY(stat(named, &status));
        probe_equal("the one that is there", (long long)status.st_ino,
                    (long long)of(open_named).st_ino);
        PROBE_TRY(fchdir(before));
        PROBE_TRY(rmdir(named));
        close(before);
        close(open_own);
        close(open_other);
        close(open_named);
    } while (probe_more());
    return probe_pass();
}
