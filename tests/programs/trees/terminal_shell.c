// SPDX-License-Identifier: Apache-2.0
// bash with job control in a pseudo-terminal: its jobs, the foreground group, and the terminal.
#include "probe.h"

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>

static int master;

// The terminal's output up to TEXT, or all of it if nothing more comes for a minute.
static const char *shown_until(const char *text)
{
    static char shown[65536];
    size_t size = 0;
    struct pollfd ready = {.fd = master, .events = POLLIN};
    memset(shown, 0, sizeof shown);
    while (strstr(shown, text) == NULL && poll(&ready, 1, 60000) == 1) {
        const ssize_t got = read(master, shown + size, sizeof shown - 1 - size);
        if (got <= 0) {
            break;
        }
        size += (size_t)got;
    }
    return shown;
}

static void type(const char *line)
{
    PROBE_TRY(write(master, line, strlen(line)));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const struct winsize size = {.ws_row = 40, .ws_col = 132};
    const pid_t shell = PROBE_TRY(forkpty(&master, NULL, NULL, &size));
    if (shell == 0) {
        setenv("PS1", "", 1);
        execlp("bash", "bash", "--norc", "--noprofile", "-i", (char *)NULL);
        _exit(127);
    }
    type("stty -echo; kept=value; sleep 100000 & echo be''gun\n");
    probe_true("shell that has begun", strstr(shown_until("begun"), "begun") != NULL);
    do {
        probe_ready();
        PROBE_SABOTAGE("job", type("kill %1; wait\n"));
        type("echo $kept; jobs; stty size; echo do''ne\n");
        const char *shown = shown_until("done");
        probe_true("variable of the shell", strstr(shown, "value") != NULL);
        probe_true("job of the shell", strstr(shown, "Running") != NULL);
        probe_true("size of the terminal", strstr(shown, "40 132") != NULL);
        probe_true("end of the output", strstr(shown, "done") != NULL);
        probe_equal("foreground group of the terminal", shell, tcgetpgrp(master));
        type("cat\n");
        while (tcgetpgrp(master) == shell) {
            sched_yield();
        }
        // Only an echo proves that cat runs: bash's child has the terminal, and sleeps in a read
        // of a pipe, before it resets the signal handlers; an interrupt at that moment would be
        // lost.
        type("listens\n");
        probe_true("cat that listens", strstr(shown_until("listens"), "listens") != NULL);
        type("\003"); // interrupts cat and not the shell
        while (tcgetpgrp(master) != shell) {
            sched_yield();
        }
    } while (probe_more());
    type("kill %1; exit 5\n");
    int status = 0;
    PROBE_TRY(waitpid(shell, &status, 0));
    probe_equal("exit status of the shell", 5, WEXITSTATUS(status));
    return probe_pass();
}
