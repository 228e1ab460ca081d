// SPDX-License-Identifier: Apache-2.0
// The offset of a regular file, for a reader and a writer.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int writer = PROBE_TRY(open(probe_path("log"), O_CREAT | O_WRONLY, 0640));
    int reader = PROBE_TRY(open(probe_path("log"), O_RDONLY));
    char line[8];
    off_t written = 0, taken = 0;
    do {
        PROBE_TRY(dprintf(writer, "line %02u\n", probe_cycle()));
        written += 8;
        taken += PROBE_TRY(read(reader, line, 5));
        probe_ready();
        PROBE_SABOTAGE("offset", lseek(reader, 0, SEEK_SET));
        probe_equal("offset of the writer", written, lseek(writer, 0, SEEK_CUR));
        probe_equal("offset of the reader", taken, lseek(reader, 0, SEEK_CUR));
        taken += PROBE_TRY(read(reader, line, 3));
        probe_equal("character after the offset", '0' + (int)probe_cycle(), line[1]);
    } while (probe_more());
    return probe_pass();
}
