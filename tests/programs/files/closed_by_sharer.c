// SPDX-License-Identifier: Apache-2.0
// A child that shares its parent's descriptors (CLONE_FILES) closes all of them, and ends; with
// MEMORY it shares the memory, too, and puts other files at the numbers.
#include "probe.h"

#include <sched.h>

enum { FIRST = 950, LAST = 975 }; // where a checkpointer may keep its own

#ifdef MEMORY
enum { SHARED = CLONE_FILES | CLONE_VM };
#else
enum { SHARED = CLONE_FILES };
#endif

static int close_all(void *file)
{
    bool good = true;
    for (int fd = FIRST; fd <= LAST; fd++) {
        if ((SHARED & CLONE_VM) != 0) {
            good = good && dup2(*(const int *)file, fd) == fd;
        }
        (void)close(fd);
    }
    closefrom(3);
    good = good && close_range(3, ~0u, 0) == 0;
    return good ? 5 : 6;
}

int main(int argc, char **argv)
{
    static char stack[64 << 10] __attribute__((aligned(16)));
    probe_start(argc, argv);
    do {
        int file = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
        const pid_t child =
            PROBE_TRY(clone(close_all, stack + sizeof stack, SHARED | SIGCHLD, &file));
        int status = 0;
        probe_equal("child", child, waitpid(child, &status, 0));
        probe_equal("status of the child", 5, WEXITSTATUS(status));
        probe_equal("descriptor that the child has closed", -1, fcntl(file, F_GETFD));
        probe_ready();
        PROBE_SABOTAGE("descriptor", open("/dev/null", O_RDONLY));
        probe_equal("descriptor that the child has closed", -1, fcntl(file, F_GETFD));
        for (int fd = FIRST; fd <= LAST; fd++) {
            char what[40];
            snprintf(what, sizeof what, "descriptor %d open", fd);
            // The checkpointer's own descriptors must not be visible to the program.
            probe_equal(what, -1, close(fd));
        }
    } while (probe_more());
    return probe_pass();
}
