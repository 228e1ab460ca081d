// SPDX-License-Identifier: Apache-2.0
// A memory file with a non-default mode that is executed while its descriptor is writable: for
// execve it does not count as open for writing.
#include "probe.h"

static int run(int fd)
{
    const pid_t pid = PROBE_TRY(fork());
    if (pid == 0) {
        char *const arguments[] = {(char *)"script", NULL};
        char *const environment[] = {NULL};
        execveat(fd, "", arguments, environment, AT_EMPTY_PATH);
        _exit(errno);
    }
    int status = 0;
    PROBE_TRY(waitpid(pid, &status, 0));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
    static const char script[] = "#!/bin/false\n";
    probe_start(argc, argv);
    const int fd = PROBE_TRY(memfd_create("script", 0));
    PROBE_TRY(write(fd, script, sizeof script - 1));
    PROBE_TRY(fchmod(fd, 0750));
    do {
        probe_ready();
        PROBE_SABOTAGE("mode", fchmod(fd, 0700));
        PROBE_SABOTAGE("script", ftruncate(fd, 0));
        struct stat seen;
        PROBE_TRY(fstat(fd, &seen));
        probe_equal("mode of the memory file", 0750, seen.st_mode & 07777);
        probe_equal("offset in it", sizeof script - 1, lseek(fd, 0, SEEK_CUR));
        probe_equal("status of the script", 1, run(fd));
    } while (probe_more());
    return probe_pass();
}
