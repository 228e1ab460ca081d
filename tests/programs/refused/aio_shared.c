// SPDX-License-Identifier: Apache-2.0
// A context of asynchronous I/O of a process whose child lives in its memory, and so can use it.
#include "aio.h"

#include <sched.h>
#include <sys/wait.h>

static int ends[2];
static _Alignas(16) char stack[65536];

static int wait_for_end(void *unused)
{
    (void)unused;
    char byte;
    return read(ends[0], &byte, 1) == 1 ? 5 : 6;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(pipe(ends));
    const aio_context_t context = aio_open(8);
    const pid_t child =
        PROBE_TRY(clone(wait_for_end, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL));
    struct io_event event;
    do {
        probe_ready();
        PROBE_SABOTAGE("context", syscall(SYS_io_destroy, context));
        probe_equal("the context", 0, syscall(SYS_io_getevents, context, 0, 0, &event, NULL));
        probe_equal("child in the memory", 0, waitpid(child, NULL, WNOHANG));
    } while (probe_more());
    PROBE_TRY(write(ends[1], "x", 1));
    int status = 0;
    PROBE_TRY(waitpid(child, &status, 0));
    probe_equal("status of the child", 5, WEXITSTATUS(status));
    return probe_pass();
}
