// SPDX-License-Identifier: Apache-2.0
// A FIFO opened at both ends, with contents.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(mkfifo(probe_path("fifo"), 0600));
    int reader = PROBE_TRY(open(probe_path("fifo"), O_RDONLY | O_NONBLOCK));
    int writer = PROBE_TRY(open(probe_path("fifo"), O_WRONLY));
    do {
        PROBE_TRY(write(writer, "in the fifo", 11));
        probe_ready();
        PROBE_SABOTAGE("contents", read(reader, (char[4]){0}, 4));
        char got[32] = "";
        probe_equal("size of the contents", 11, read(reader, got, sizeof got));
        probe_equal_text("contents of the fifo", "in the fifo", got);
        probe_equal("O_NONBLOCK of the reader", O_NONBLOCK, fcntl(reader, F_GETFL) & O_NONBLOCK);
        probe_equal("O_NONBLOCK of the writer", 0, fcntl(writer, F_GETFL) & O_NONBLOCK);
    } while (probe_more());
    return probe_pass();
}
