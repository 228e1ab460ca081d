// SPDX-License-Identifier: Apache-2.0
// A pseudo-terminal in line mode: lines, an end of file, an incomplete line, unread output, packet
// mode.
#include "probe.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int master = PROBE_TRY(posix_openpt(O_RDWR | O_NOCTTY));
    PROBE_TRY(grantpt(master));
    PROBE_TRY(unlockpt(master));
    char name[64];
    PROBE_ZERO(ptsname_r(master, name, sizeof name));
    int slave = PROBE_TRY(open(name, O_RDWR | O_NOCTTY));
    struct termios modes;
    PROBE_TRY(tcgetattr(slave, &modes));
    modes.c_lflag &= ~(tcflag_t)ECHO;
    PROBE_TRY(tcsetattr(slave, TCSANOW, &modes));
    PROBE_TRY(ioctl(master, TIOCPKT, &(int){1}));
    struct pollfd ready = {.fd = slave, .events = POLLIN};
    do {
        // ^V makes the ^D a character; the other ^D is an end of file.
        PROBE_TRY(write(master, "one line\nano\026\004ther\n\004and a pa", 28));
        PROBE_TRY(write(slave, "output", 6));
        // A worker of the kernel moves each from one end to the other.
        PROBE_TRY(poll(&ready, 1, -1));
        PROBE_TRY(poll(&(struct pollfd){.fd = master, .events = POLLIN}, 1, -1));
        probe_ready();
        PROBE_SABOTAGE("lines", tcflush(slave, TCIFLUSH));
        PROBE_SABOTAGE("packet mode", ioctl(master, TIOCPKT, &(int){0}));
        probe_equal("lines: readable", 1, poll(&ready, 1, 0));
        char got[64] = "";
        probe_equal("size of the first of the lines", 9, read(slave, got, sizeof got));
        probe_equal_text("first line", "one line\n", got);
        memset(got, 0, sizeof got);
        probe_equal("size of the second of the lines", 9, read(slave, got, sizeof got));
        probe_equal_text("second line", "ano\004ther\n", got);
        probe_equal("end of a file", 0, read(slave, got, sizeof got));
        probe_equal("incomplete line", 0, poll(&ready, 1, 0));
        PROBE_TRY(write(master, "rt\n", 3));
        memset(got, 0, sizeof got);
        probe_equal("size of the completed line", 11, read(slave, got, sizeof got));
        probe_equal_text("completed line", "and a part\n", got);
        memset(got, 0, sizeof got);
        probe_equal("packet mode: bytes of the output", 7, read(master, got, sizeof got));
        probe_equal_text("packet mode: output", "output", got + 1);
    } while (probe_more());
    return probe_pass();
}
