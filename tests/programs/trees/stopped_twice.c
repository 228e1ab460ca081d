// SPDX-License-Identifier: Apache-2.0
// Stopped children: one that was sent SIGSTOP once more while it stood, which is still pending;
// others that were stopped right after their fork, or a moment later each: some in the C library's
// part of it, some in the agent's, before it listens or after.
#include "probe.h"

#include <time.h>

enum { AT_ONCE = 16, APART = 15000 }; // nanoseconds

struct child {
    pid_t pid;
    int word; // the end of a pipe from which it reads a byte
};

static struct child start(void)
{
    int ends[2];
    PROBE_TRY(pipe(ends));
    const struct child child = {.pid = PROBE_TRY(fork()), .word = ends[1]};
    if (child.pid == 0) {
        char byte = 0;
        _exit(read(ends[0], &byte, 1) == 1 ? byte : 1);
    }
    close(ends[0]);
    return child;
}

static void stop(pid_t child)
{
    int status;
    PROBE_TRY(kill(child, SIGSTOP));
    probe_equal("stop of a child", child, waitpid(child, &status, WUNTRACED));
    probe_true("it was stopped", WIFSTOPPED(status));
}

static void pass(long nanoseconds)
{
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begun.tv_sec) * 1000000000 + now.tv_nsec - begun.tv_nsec < nanoseconds);
}

static void look(const char *what, struct child child)
{
    int status;
    probe_equal(what, 0, PROBE_TRY(waitpid(child.pid, &status, WCONTINUED | WNOHANG)));
    PROBE_TRY(kill(child.pid, SIGCONT));
    probe_equal(what, child.pid, PROBE_TRY(waitpid(child.pid, &status, WCONTINUED)));
    probe_true("it was continued", WIFCONTINUED(status));
    PROBE_TRY(write(child.word, "\7", 1));
    probe_equal(what, child.pid, PROBE_TRY(waitpid(child.pid, &status, 0)));
    probe_equal("what it has read", 7, WEXITSTATUS(status));
    close(child.word);
}

// The child waits for its byte, so its agent listens.
static void wait_until_it_reads(pid_t child)
{
    char path[40], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", child);
    while (state != 'S') {
        FILE *stat = fopen(path, "r");
        probe_true("the child's state", stat != NULL && fscanf(stat, "%*d %*s %c", &state) == 1);
        fclose(stat);
        usleep(1000);
    }
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        struct child at_once[AT_ONCE];
        const struct child twice = start();
        wait_until_it_reads(twice.pid);
        stop(twice.pid);
        PROBE_TRY(kill(twice.pid, SIGSTOP));
        for (int i = 0; i < AT_ONCE; i++) {
            at_once[i] = start();
            pass(i * APART);
            stop(at_once[i].pid);
        }
        PROBE_TRY(kill(at_once[0].pid, SIGSTOP));
        probe_ready();
        PROBE_SABOTAGE("twice", kill(twice.pid, SIGCONT));
        PROBE_SABOTAGE("once", kill(at_once[1].pid, SIGCONT));
        look("the child that was stopped twice", twice);
        for (int i = 0; i < AT_ONCE; i++)
            look("a child that was stopped at once", at_once[i]);
    } while (probe_more());
    return probe_pass();
}
