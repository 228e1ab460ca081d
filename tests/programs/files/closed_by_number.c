// SPDX-License-Identifier: Apache-2.0
// A program that closes all descriptors it finds in /proc/self/fd, and any others, by raw system
// calls; and reuses their numbers.
#include "probe.h"

#include <dirent.h>

enum { FIRST = 950, LAST = 975 }; // where a checkpointer may keep its own

static void close_listed(void)
{
    DIR *list = opendir("/proc/self/fd");
    probe_true("list of descriptors", list != NULL);
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;) {
        const int fd = atoi(entry->d_name);
        if (fd > 2 && fd != dirfd(list)) {
            (void)syscall(SYS_close, fd);
        }
    }
    closedir(list);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        close_listed();
        PROBE_TRY(syscall(SYS_close_range, 3, ~0u, 0));
        const int file = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
        for (int fd = FIRST; fd <= LAST; fd++) {
            probe_equal("number wanted", fd,
                        fd % 2 == 0 ? syscall(SYS_dup2, file, fd)
                                    : syscall(SYS_dup3, file, fd, O_CLOEXEC));
        }
        PROBE_TRY(lseek(file, probe_cycle(), SEEK_SET));
        probe_ready();
        PROBE_SABOTAGE("number", close(FIRST));
        for (int fd = FIRST; fd <= LAST; fd++) {
            char what[40];
            snprintf(what, sizeof what, "offset at the number %d", fd);
            probe_equal(what, probe_cycle(), lseek(fd, 0, SEEK_CUR));
            probe_equal("close-on-exec", fd % 2 == 0 ? 0 : FD_CLOEXEC, fcntl(fd, F_GETFD));
        }
    } while (probe_more());
    return probe_pass();
}
