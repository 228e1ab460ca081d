// SPDX-License-Identifier: Apache-2.0
// A pseudo-terminal opened by the process: both ends, modes, window size and bytes in flight.
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
    int slave = PROBE_TRY(open(ptsname(master), O_RDWR | O_NOCTTY | O_NONBLOCK));
    struct termios modes;
    PROBE_TRY(tcgetattr(slave, &modes));
    cfmakeraw(&modes);
    modes.c_cc[VMIN] = 3;
    PROBE_TRY(tcsetattr(slave, TCSANOW, &modes));
    struct winsize size = {.ws_row = 33, .ws_col = 111};
    PROBE_TRY(ioctl(master, TIOCSWINSZ, &size));
    do {
        PROBE_TRY(write(master, "typed", 5));
        // A worker of the kernel moves it from one end to the other.
        PROBE_TRY(poll(&(struct pollfd){.fd = slave, .events = POLLIN}, 1, -1));
        probe_ready();
        modes.c_cc[VMIN] = 1;
        PROBE_SABOTAGE("modes", tcsetattr(slave, TCSANOW, &modes));
        PROBE_SABOTAGE("bytes", tcflush(slave, TCIFLUSH));
        struct termios seen;
        PROBE_TRY(tcgetattr(slave, &seen));
        probe_equal("modes: VMIN", 3, seen.c_cc[VMIN]);
        probe_equal("modes: ICANON and ECHO", 0, seen.c_lflag & (ICANON | ECHO));
        PROBE_TRY(ioctl(slave, TIOCGWINSZ, &size));
        probe_equal("columns", 111, size.ws_col);
        char got[16] = "";
        probe_equal("bytes typed", 5, read(slave, got, sizeof got));
        probe_equal_text("what was typed", "typed", got);
        PROBE_TRY(write(slave, "reply", 5));
        probe_equal("bytes of the reply", 5, read(master, got, sizeof got));
    } while (probe_more());
    return probe_pass();
}
