// SPDX-License-Identifier: Apache-2.0
// Two children that each lead a session with a terminal: one has it open as /dev/tty only, the
// other does not have it open, but can open it.
#include "probe.h"

#include <pty.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>

static void serve(int socket, int terminal)
{
    for (char byte; read(socket, &byte, 1) == 1;) {
        const int fd = terminal >= 0 ? terminal : open("/dev/tty", O_RDWR);
        char line[16] = "";
        if (write(socket, &byte, 1) != 1) { // input that arrives while it is not open is lost
            break;
        }
        if (fd < 0 || read(fd, line, sizeof line) != 5 || strcmp(line, "word\n") != 0) {
            byte = 0;
        }
        // Closed only after the other end has read the echo, which would otherwise be lost.
        if (write(socket, &byte, 1) != 1 || read(socket, &byte, 1) != 1) {
            break;
        }
        if (terminal < 0 && fd >= 0) {
            close(fd);
        }
        if (write(socket, &byte, 1) != 1) {
            break;
        }
    }
    _exit(0);
}

static pid_t start(int *master, int *socket, bool has_it_open)
{
    int ends[2];
    PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    *master = PROBE_TRY(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    PROBE_TRY(grantpt(*master));
    PROBE_TRY(unlockpt(*master));
    const pid_t pid = PROBE_TRY(fork());
    if (pid == 0) {
        PROBE_TRY(setsid());
        const int slave = PROBE_TRY(open(ptsname(*master), O_RDWR));
        const int terminal = has_it_open ? PROBE_TRY(open("/dev/tty", O_RDWR)) : -1;
        PROBE_TRY(close(*master));
        PROBE_TRY(close(slave));
        PROBE_TRY(close(ends[0]));
        PROBE_TRY(write(ends[1], "b", 1));
        serve(ends[1], terminal);
    }
    PROBE_TRY(close(ends[1]));
    *socket = ends[0];
    char begun;
    probe_equal("child that has begun", 1, read(*socket, &begun, 1));
    return pid;
}

static void ask(const char *what, int master, int socket)
{
    char byte = 'y';
    probe_equal(what, 1, write(socket, &byte, 1));
    probe_equal(what, 1, read(socket, &byte, 1));
    PROBE_TRY(write(master, "word\n", 5));
    probe_equal(what, 1, read(socket, &byte, 1));
    probe_equal(what, 'y', byte);
    char echo[16];
    PROBE_TRY(read(master, echo, sizeof echo));
    probe_equal(what, 1, write(socket, &byte, 1));
    probe_equal(what, 1, read(socket, &byte, 1));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    int masters[2], sockets[2];
    pid_t children[2];
    for (int i = 0; i < 2; i++) {
        children[i] = start(&masters[i], &sockets[i], i == 0);
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("child", (kill(children[1], SIGKILL), waitpid(children[1], NULL, 0)));
        ask("terminal of the child that has it open", masters[0], sockets[0]);
        ask("terminal of the child that can open it", masters[1], sockets[1]);
    } while (probe_more());
    for (int i = 0; i < 2; i++) {
        PROBE_TRY(kill(children[i], SIGKILL));
        PROBE_TRY(waitpid(children[i], NULL, 0));
    }
    return probe_pass();
}
