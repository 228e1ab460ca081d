// SPDX-License-Identifier: Apache-2.0
// A program under rules of Landlock, by itself or, with EXECUTES, by one that has executed it.
#include "probe.h"

#include <sys/prctl.h>

enum { CREATE_RULESET = 444, RESTRICT_SELF = 446, MAKE_FIFO = 1 << 10 };

// No FIFO is made in any directory from now on.
static void confine(void)
{
    const uint64_t rules = MAKE_FIFO;
    int fd = (int)syscall(CREATE_RULESET, &rules, sizeof(rules), 0);
    if (fd < 0) {
        probe_lacks("Landlock");
    }
    PROBE_TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    PROBE_TRY(syscall(RESTRICT_SELF, fd, 0));
    PROBE_TRY(close(fd));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const char *const place = probe_path("fifo");
#ifdef EXECUTES
    if (getenv("CONFINED") == NULL) {
        confine();
        char *clean[] = {"CONFINED=1", NULL};
        PROBE_TRY(execve("/proc/self/exe", argv, clean));
    }
#else
    confine();
#endif
    do {
        probe_ready();
        PROBE_SABOTAGE("rules", PROBE_TRY(mknod(place, S_IFREG | 0600, 0)));
        probe_equal("rules: a new FIFO", -1, mkfifo(place, 0600));
        probe_equal("rules: error", EACCES, errno);
    } while (probe_more());
    return probe_pass();
}
