// SPDX-License-Identifier: Apache-2.0
// The login user id, which the process sets where nobody has logged in. A restored process has that
// of cr_restart, here of the test, as the process had when it started.
#include "probe.h"

static long long login(void)
{
    return strtoll(probe_read_text("/proc/self/loginuid"), NULL, 10);
}

int main(int argc, char **argv)
{
    enum { nobody = 65534 };
    probe_start(argc, argv);
    const long long inherited = login();
    const int file = PROBE_TRY(open("/proc/self/loginuid", O_WRONLY | O_CLOEXEC));
    const bool is_set = write(file, "65534", 5) == 5;
    PROBE_TRY(close(file));
    if (!is_set)
        probe_lacks("a login user id that can be set");
    do {
        probe_ready();
        const long long found = login();
        if (found != inherited)
            probe_equal("the login user id", nobody, found);
    } while (probe_more());
    return probe_pass();
}
