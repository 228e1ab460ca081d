// SPDX-License-Identifier: Apache-2.0
// Three logs, by write, by stdio with an unflushed buffer, and grown by ftruncate: all are as at
// the checkpoint, whatever was written after it.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int raw = PROBE_TRY(open(probe_path("raw"), O_CREAT | O_RDWR, 0600));
    int grown = PROBE_TRY(open(probe_path("grown"), O_CREAT | O_RDWR, 0600));
    FILE *buffered = fopen(probe_path("buffered"), "w+");
    PROBE_MAP(buffered);
    long lines = 0;
    do {
        lines++;
        PROBE_TRY(dprintf(raw, "%07ld\n", lines));
        fprintf(buffered, "%07ld\n", lines);
        PROBE_TRY(ftruncate(grown, lines * 4096));
        probe_ready();
        PROBE_SABOTAGE("raw log", lines++);
        PROBE_SABOTAGE("buffered log", fputc('x', buffered));
        PROBE_SABOTAGE("grown log", ftruncate(grown, 1));
        struct stat seen;
        PROBE_TRY(fstat(raw, &seen));
        probe_equal("size of the raw log", lines * 8, seen.st_size);
        fflush(buffered);
        PROBE_TRY(fstat(fileno(buffered), &seen));
        probe_equal("size of the buffered log", lines * 8, seen.st_size);
        PROBE_TRY(fstat(grown, &seen));
        probe_equal("size of the grown log", lines * 4096, seen.st_size);
    } while (probe_more());
    return probe_pass();
}
