// SPDX-License-Identifier: Apache-2.0
// A log opened with O_APPEND: lines follow each other, and output written after a checkpoint is
// gone after its restart (the file is truncated).
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int log = PROBE_TRY(open(probe_path("log"), O_CREAT | O_APPEND | O_RDWR, 0600));
    off_t size = 0;
    struct stat seen;
    do {
        size += PROBE_TRY(dprintf(log, "cycle %u\n", probe_cycle()));
        probe_ready();
        PROBE_SABOTAGE("size", PROBE_TRY(ftruncate(log, size + 1)));
        PROBE_TRY(fstat(log, &seen));
        probe_equal("size of the log", size, seen.st_size);
        size += PROBE_TRY(dprintf(log, "checked %u\n", probe_cycle()));
        PROBE_TRY(fstat(log, &seen));
        probe_equal("size after appending", size, seen.st_size);
    } while (probe_more());
    return probe_pass();
}
