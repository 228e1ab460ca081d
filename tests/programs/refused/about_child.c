// SPDX-License-Identifier: Apache-2.0
// A /proc file about a child: the child does not exist yet when a restart reopens files.
#include "probe.h"

static void wait_on(void)
{
    probe_await_check();
    _exit(0);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        const pid_t child = probe_fork(wait_on);
        char path[64], name[64] = "";
        snprintf(path, sizeof path, "/proc/%d/comm", child);
        const int fd = PROBE_TRY(open(path, O_RDONLY | O_CLOEXEC));
        probe_ready();
        PROBE_SABOTAGE("file", dup2(PROBE_TRY(open("/dev/null", O_RDONLY)), fd));
        probe_true("file about the child", pread(fd, name, sizeof name, 0) > 0 || errno == ESRCH);
        PROBE_TRY(waitpid(child, NULL, 0));
        PROBE_TRY(close(fd));
    } while (probe_more());
    return probe_pass();
}
