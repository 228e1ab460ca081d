// SPDX-License-Identifier: Apache-2.0
// A context of asynchronous I/O of a process in whose memory another one lives that is not its
// child: its maker, which was, has ended. With MAIN_THREAD_ENDS only a second thread of it lives.
#include "aio.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

static int ends[2], answers[2];
static _Alignas(16) char stack[65536], second_stack[65536];
static volatile pid_t orphan;

// Ends when it is told to, or with the program.
static int wait_for_end(void *unused)
{
    (void)unused;
    char byte;
    close(ends[1]);
    const bool told = read(ends[0], &byte, 1) == 1;
    return told && write(answers[1], &byte, 1) == 1 ? 0 : 1;
}

#ifdef MAIN_THREAD_ENDS
static _Alignas(16) char third_stack[65536];

static int leave_thread(void *unused)
{
    (void)unused;
    const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
    const int thread = clone(wait_for_end, third_stack + sizeof third_stack, flags, NULL);
    return (int)syscall(SYS_exit, thread > 0 ? 0 : 1); // of this thread alone
}

// The kernel then shows no memory of the process.
static void await_end_of_main_thread(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/statm", (int)orphan);
    for (int patience = 0; strncmp(probe_read_text(path), "0 ", 2) != 0; patience++) {
        probe_true("the main thread of the orphan ends", patience < 30000);
        usleep(1000);
    }
}
#define RUN_ORPHAN leave_thread
#else
#define RUN_ORPHAN wait_for_end
#endif

static int make_orphan(void *unused)
{
    (void)unused;
    orphan = clone(RUN_ORPHAN, second_stack + sizeof second_stack, CLONE_VM, NULL);
    return orphan > 0 ? 5 : 6;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(pipe(ends));
    PROBE_TRY(pipe(answers));
    const aio_context_t context = aio_open(8);
    const pid_t child =
        PROBE_TRY(clone(make_orphan, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL));
    int status = 0;
    PROBE_TRY(waitpid(child, &status, 0));
    probe_equal("status of the child", 5, WEXITSTATUS(status));
#ifdef MAIN_THREAD_ENDS
    await_end_of_main_thread();
#endif
    struct io_event event;
    do {
        probe_ready();
        PROBE_SABOTAGE("context", syscall(SYS_io_destroy, context));
        probe_equal("the context", 0, syscall(SYS_io_getevents, context, 0, 0, &event, NULL));
        probe_equal("the orphan", 0, kill(orphan, 0));
    } while (probe_more());
    char byte;
    PROBE_TRY(write(ends[1], "x", 1));
    probe_equal("its answer", 1, read(answers[0], &byte, 1));
    return probe_pass();
}
