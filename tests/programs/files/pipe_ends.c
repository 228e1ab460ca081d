// SPDX-License-Identifier: Apache-2.0
// Pipes with one end closed: end of file after the contents, and EPIPE.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    do {
        int no_writer[2], no_reader[2];
        PROBE_TRY(pipe(no_writer));
        PROBE_TRY(pipe(no_reader));
        PROBE_TRY(write(no_writer[1], "last", 4));
        close(no_writer[1]);
        close(no_reader[0]);
        probe_ready();
        PROBE_SABOTAGE("last words", read(no_writer[0], (char[4]){0}, 4));
        char got[8] = "";
        probe_equal("size of the last words", 4, read(no_writer[0], got, sizeof got));
        probe_equal_text("last words", "last", got);
        probe_equal("end of file", 0, read(no_writer[0], got, sizeof got));
        probe_equal("write without a reader", -1, write(no_reader[1], "x", 1));
        probe_equal("errno of it", EPIPE, errno);
        close(no_writer[0]);
        close(no_reader[1]);
    } while (probe_more());
    return probe_pass();
}
