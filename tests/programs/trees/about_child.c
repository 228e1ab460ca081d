// SPDX-License-Identifier: Apache-2.0
// Files of /proc about members: about a child, about the parent, about a process itself that is not
// the first, and the directory of a child; with their positions.
#include "probe.h"

#ifdef MEMORY
#define FILE_ABOUT "maps" // what it shows is bound to the memory that the child had
#define BEGINS_WITH_PID 0
#else
#define FILE_ABOUT "stat"
#define BEGINS_WITH_PID 1
#endif

enum { position = 3 };

static int about(pid_t pid, const char *name, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return (int)PROBE_TRY(open(path, flags | O_CLOEXEC));
}

static int opened(pid_t pid, const char *name)
{
    char start[position];
    const int fd = about(pid, name, O_RDONLY);
    probe_equal("bytes read", position, read(fd, start, sizeof start));
    return fd;
}

static void check_pid(const char *what, int fd, pid_t pid)
{
    char text[64] = "";
    probe_true(what, pread(fd, text, sizeof text - 1, 0) > 0);
    if (!probe_told("newids"))
        probe_equal(what, pid, atoi(text));
}

// PID: 0 where it does not begin with that, and shows nothing once the process has ended.
static void check(const char *what, int fd, pid_t pid)
{
    probe_equal(what, position, lseek(fd, 0, SEEK_CUR));
    if (pid != 0)
        check_pid(what, fd, pid);
}

static void member(void)
{
    const int parent = opened(getppid(), "stat");
    const int own = opened(getpid(), "stat");
    probe_await_check();
    check("file about the parent", parent, getppid());
    check("file about a process itself", own, getpid());
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        const pid_t child = probe_fork(member);
        const int fd = opened(child, FILE_ABOUT);
        const int directory = about(child, "", O_RDONLY | O_DIRECTORY);
        probe_ready();
        PROBE_SABOTAGE("file", dup2(PROBE_TRY(open("/proc/1/stat", O_RDONLY)), fd));
        check("file about the child", fd, BEGINS_WITH_PID ? child : 0);
        const int within = (int)PROBE_TRY(openat(directory, "stat", O_RDONLY));
        check_pid("directory about the child", within, child);
        probe_reap("child", child);
        const int all[] = {fd, directory, within};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            PROBE_TRY(close(all[i]));
    } while (probe_more());
    return probe_pass();
}
