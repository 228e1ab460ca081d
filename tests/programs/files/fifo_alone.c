// SPDX-License-Identifier: Apache-2.0
// One end of a FIFO whose other end is not open: it can still be opened.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(mkfifo(probe_path("fifo"), 0600));
    int reader = PROBE_TRY(open(probe_path("fifo"), O_RDONLY | O_NONBLOCK));
    do {
        probe_ready();
        PROBE_SABOTAGE("reader", dup2(PROBE_TRY(open("/dev/null", O_RDONLY)), reader));
        char got[8] = "";
        probe_equal("reader without a writer", 0, read(reader, got, 1));
        int writer = open(probe_path("fifo"), O_WRONLY | O_NONBLOCK);
        probe_true("reader seen by a new writer", writer >= 0);
        PROBE_TRY(write(writer, "hello", 5));
        probe_equal("bytes to the reader", 5, read(reader, got, 5));
        PROBE_TRY(close(writer));
        probe_equal("reader after its writer", 0, read(reader, got, 1));
    } while (probe_more());
    return probe_pass();
}
