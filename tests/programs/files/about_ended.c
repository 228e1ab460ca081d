// SPDX-License-Identifier: Apache-2.0
// Files of /proc about a process that has ended and was waited for: they tell nothing of it, but
// for what others share (mountinfo), and can neither be entered nor listed.
#include "probe.h"

#include <linux/magic.h>
#include <sys/vfs.h>

enum { position = 3 };

static pid_t child;

static int about(const char *name, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", child, name);
    return (int)PROBE_TRY(open(path, flags | O_CLOEXEC));
}

static void check_error(const char *what, int fd)
{
    char byte;
    probe_equal(what, -1, pread(fd, &byte, 1, 0));
    probe_equal(what, ESRCH, errno);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    child = (pid_t)PROBE_TRY(fork());
    if (child == 0) {
        pause();
        _exit(0);
    }
    char text[256];
    const int stat = about("stat", O_RDONLY);
    const int settings = about("comm", O_RDWR);
    const int mounts = about("mountinfo", O_RDONLY);
    const int directory = about("", O_RDONLY | O_DIRECTORY);
    const int tasks = about("task", O_RDONLY | O_DIRECTORY);
    probe_equal("bytes read", position, read(mounts, text, position));
    PROBE_TRY(kill(child, SIGKILL));
    probe_equal("child", child, PROBE_TRY(waitpid(child, NULL, 0)));
    do {
        probe_ready();
        PROBE_SABOTAGE("stat", dup2(PROBE_TRY(open("/proc/self/stat", O_RDONLY)), stat));
        PROBE_SABOTAGE("mounts", dup2(PROBE_TRY(open("/dev/null", O_RDONLY)), mounts));
        PROBE_SABOTAGE("directory", dup2(PROBE_TRY(open("/proc/self", O_RDONLY)), directory));
        PROBE_SABOTAGE("tasks", dup2(PROBE_TRY(open("/proc", O_RDONLY)), tasks));
        check_error("stat of an ended process", stat);
        check_error("comm of an ended process", settings);
        probe_equal("access to comm", O_RDWR, fcntl(settings, F_GETFL) & O_ACCMODE);
        probe_equal("position in the list of mounts", position, lseek(mounts, 0, SEEK_CUR));
        probe_true("bytes of the list of mounts", pread(mounts, text, sizeof text, 0) > 0);
        probe_equal("file in the directory of an ended process", -1,
                    openat(directory, "stat", O_RDONLY));
        probe_true("error of that", errno == ESRCH || errno == ENOENT); // by the kernel's release
        const long listed = syscall(SYS_getdents64, tasks, text, sizeof text);
        probe_true("list of the tasks of an ended process", listed <= 0);
        const int all[] = {stat, settings, mounts, directory, tasks};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            struct statfs system;
            PROBE_TRY(fstatfs(all[i], &system));
            probe_equal("file system", PROC_SUPER_MAGIC, system.f_type);
        }
    } while (probe_more());
    return probe_pass();
}
