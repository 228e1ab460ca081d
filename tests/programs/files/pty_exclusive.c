// SPDX-License-Identifier: Apache-2.0
// A pseudo-terminal in exclusive mode (TIOCEXCL), with bytes in flight, of a program that has no
// privilege: nobody opens it once more, not even to look at what waits in it.
#include "probe.h"

#include <linux/capability.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <termios.h>

static void give_up_privileges(void)
{
    struct __user_cap_header_struct self = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    PROBE_TRY(syscall(SYS_capset, &self, none));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int master = PROBE_TRY(posix_openpt(O_RDWR | O_NOCTTY));
    PROBE_TRY(grantpt(master));
    PROBE_TRY(unlockpt(master));
    int slave = PROBE_TRY(open(ptsname(master), O_RDWR | O_NOCTTY));
    PROBE_TRY(ioctl(slave, TIOCEXCL));
    give_up_privileges();
    do {
        PROBE_TRY(write(master, "a line\n", 7));
        // A worker of the kernel moves it from one end to the other.
        PROBE_TRY(poll(&(struct pollfd){.fd = slave, .events = POLLIN}, 1, -1));
        probe_ready();
        PROBE_SABOTAGE("exclusive", ioctl(slave, TIOCNXCL));
        int exclusive = 0;
        PROBE_TRY(ioctl(slave, TIOCGEXCL, &exclusive));
        probe_equal("exclusive", 1, exclusive);
        probe_equal("opening it once more", -1, open(ptsname(master), O_RDWR | O_NOCTTY));
        probe_equal("why not", EBUSY, errno);
        char got[16] = "";
        probe_equal("bytes typed", 7, read(slave, got, sizeof got));
        probe_equal_text("what was typed", "a line\n", got);
        PROBE_TRY(tcflush(master, TCIFLUSH)); // the echo
    } while (probe_more());
    return probe_pass();
}
