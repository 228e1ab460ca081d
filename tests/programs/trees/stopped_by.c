// SPDX-License-Identifier: Apache-2.0
// Which signal has stopped a child, as its parent sees: those of the terminal, and SIGSTOP.
#include "probe.h"

static const int signals[] = {SIGTSTP, SIGTTIN, SIGTTOU, SIGSTOP};
enum { CHILDREN = sizeof signals / sizeof *signals };

struct child {
    pid_t pid;
    int word; // the end of a pipe from which it reads a byte
};

// In a process group of its own: its parent is outside, or else the kernel would ignore the signal.
static struct child start(int signal)
{
    int ends[2];
    PROBE_TRY(pipe(ends));
    const struct child child = {.pid = PROBE_TRY(fork()), .word = ends[1]};
    if (child.pid == 0) {
        char byte = 0;
        PROBE_TRY(setpgid(0, 0));
        PROBE_TRY(raise(signal));
        _exit(read(ends[0], &byte, 1) == 1 ? byte : 1);
    }
    close(ends[0]);
    return child;
}

static void look(int signal, struct child child)
{
    siginfo_t info = {.si_code = 0};
    PROBE_TRY(waitid(P_PID, (id_t)child.pid, &info, WSTOPPED | WNOWAIT));
    probe_equal("how a child stands", CLD_STOPPED, info.si_code);
    probe_equal("the signal that has stopped a child", signal, info.si_status);
}

static void end(struct child child)
{
    int status;
    PROBE_TRY(kill(child.pid, SIGCONT));
    PROBE_TRY(write(child.word, "\7", 1));
    probe_equal("end of a child", child.pid, PROBE_TRY(waitpid(child.pid, &status, 0)));
    probe_equal("what it has read", 7, WEXITSTATUS(status));
    close(child.word);
}

static void stop_otherwise(struct child child)
{
    PROBE_TRY(kill(child.pid, SIGCONT));
    PROBE_TRY(kill(child.pid, SIGSTOP));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        struct child children[CHILDREN];
        for (int i = 0; i < CHILDREN; i++) {
            children[i] = start(signals[i]);
            look(signals[i], children[i]);
        }
        probe_ready();
        PROBE_SABOTAGE("signal", stop_otherwise(children[0]));
        for (int i = 0; i < CHILDREN; i++)
            look(signals[i], children[i]);
        for (int i = 0; i < CHILDREN; i++)
            end(children[i]);
    } while (probe_more());
    return probe_pass();
}
