// SPDX-License-Identifier: Apache-2.0
// Children that leave while the checkpointer asks them to prepare: one ends, which takes some time;
// one executes another program, which must be saved like any other. A third ends when it is told to
// stop.
#include "probe.h"

#include <poll.h>

static const size_t burden = 256 << 20;
static uint64_t mask;
static volatile int blocked;

// Waits until the checkpointer's signal, which is blocked, is pending, or for the parent's word.
static void await_leave(int words)
{
    uint64_t pending = 0;
    struct pollfd told = {words, POLLIN, 0};
    while ((pending & mask) == 0 && poll(&told, 1, 1) == 0) {
        PROBE_TRY(syscall(SYS_rt_sigpending, &pending, sizeof pending));
    }
}

// Ends the process when the checkpointer's signal is pending for this very thread, or at the
// parent's word.
static void *end_at_stop(void *words)
{
    uint64_t pending = 0;
    struct pollfd told = {*(int *)words, POLLIN, 0};
    PROBE_TRY(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, sizeof mask));
    blocked = 1;
    while ((pending & mask) == 0 && poll(&told, 1, 1) == 0) {
        char *status = (char *)probe_read_text("/proc/thread-self/status");
        const char *line = strstr(status, "SigPnd:");
        pending = line != NULL ? strtoull(line + strlen("SigPnd:"), NULL, 16) : 0;
        free(status);
    }
    _exit(8);
}

static pid_t make(int words[2], const char *role)
{
    PROBE_TRY(pipe(words));
    const pid_t child = PROBE_TRY(fork());
    if (child != 0) {
        PROBE_TRY(close(words[0]));
        probe_await_blocked(child, strcmp(role, "stops") == 0 ? SYS_pause : SYS_poll);
        return child;
    }
    PROBE_TRY(close(words[1]));
    if (strcmp(role, "stops") == 0) {
        pthread_t thread;
        PROBE_ZERO(pthread_create(&thread, NULL, end_at_stop, &words[0]));
        probe_await("blocked signal", &blocked);
        for (;;) {
            pause();
        }
    }
    PROBE_TRY(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, sizeof mask));
    if (strcmp(role, "ends") == 0) {
        // Freeing its memory takes long after its other descriptors are closed.
        const int file = PROBE_TRY(memfd_create("burden", 0));
        PROBE_TRY(fallocate(file, 0, 0, (off_t)burden));
    }
    await_leave(words[0]);
    if (strcmp(role, "ends") == 0) {
        _exit(5);
    }
    char number[16];
    snprintf(number, sizeof number, "%d", words[0]);
    execl("/proc/self/exe", "leaving", "executed", number, (char *)NULL);
    _exit(127);
}

// The executed program: runs until the parent closes its end.
static int executed(int words)
{
    char byte;
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &mask, NULL, sizeof mask);
    while (read(words, &byte, 1) > 0) {
    }
    return 6;
}

int main(int argc, char **argv)
{
    const char *number = getenv("CRYO_SIGNAL");
    mask = 1ul << ((number != NULL ? atoi(number) : SIGRTMAX) - 1);
    if (argc == 3 && strcmp(argv[1], "executed") == 0) {
        return executed(atoi(argv[2]));
    }
    probe_start(argc, argv);
    do {
        int words[3][2];
        // In this order: a later child inherits the earlier ones' pipes; the first to end is last.
        const pid_t executes = make(words[1], "executes");
        const pid_t stops = make(words[2], "stops");
        const pid_t ends = make(words[0], "ends");
        probe_ready();
        PROBE_SABOTAGE("ends", (kill(ends, SIGKILL), kill(stops, SIGKILL)));
        int status = 0;
        PROBE_TRY(close(words[0][1]));
        PROBE_TRY(waitpid(ends, &status, 0));
        probe_equal("status of the one that ends", 5 << 8, status);
        PROBE_TRY(close(words[2][1]));
        PROBE_TRY(waitpid(stops, &status, 0));
        probe_equal("status of the one that is to stop", 8 << 8, status);
        PROBE_TRY(close(words[1][1]));
        PROBE_TRY(waitpid(executes, &status, 0));
        probe_equal("status of the one that executes", 6 << 8, status);
    } while (probe_more());
    return probe_pass();
}
