// SPDX-License-Identifier: Apache-2.0
// A FIFO that lost its name after it was opened.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(mkfifo(probe_path("fifo"), 0600));
    int both = PROBE_TRY(open(probe_path("fifo"), O_RDWR | O_NONBLOCK));
    PROBE_TRY(unlink(probe_path("fifo")));
    do {
        PROBE_TRY(write(both, "nameless", 8));
        probe_ready();
        PROBE_SABOTAGE("contents", read(both, (char[4]){0}, 4));
        char got[32] = "";
        probe_equal("size of the contents", 8, read(both, got, sizeof got));
        probe_equal_text("contents of the fifo", "nameless", got);
        struct stat seen;
        PROBE_TRY(fstat(both, &seen));
        probe_true("a fifo still", S_ISFIFO(seen.st_mode));
    } while (probe_more());
    return probe_pass();
}
