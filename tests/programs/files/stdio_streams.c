// SPDX-License-Identifier: Apache-2.0
// stdio: a half-read buffer, an ungetc, a half-written buffer, an error flag.
#include "probe.h"

#include <stdio_ext.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    FILE *text = PROBE_MAP(fopen(probe_path("text"), "w+"));
    fprintf(text, "first line\nsecond line\nthird line\n");
    rewind(text);
    FILE *half = PROBE_MAP(fopen(probe_path("half"), "w"));
    char line[64];
    do {
        rewind(text);
        PROBE_MAP(fgets(line, sizeof line, text));
        ungetc('?', text);
        fputs("written, ", half);
        probe_ready();
        PROBE_SABOTAGE("ungetc", getc(text));
        PROBE_SABOTAGE("stream position", fseek(text, 0, SEEK_SET));
        probe_equal_text("line after the stream position and ungetc", "?second line\n",
                         fgets(line, sizeof line, text));
        struct stat seen;
        PROBE_TRY(fstat(fileno(half), &seen));
        probe_equal("size before the flush", 9 * ((long long)probe_cycle() - 1), seen.st_size);
        PROBE_SABOTAGE("half-written", __fpurge(half));
        fflush(half);
        PROBE_TRY(fstat(fileno(half), &seen));
        probe_equal("size of the half-written", 9 * (long long)probe_cycle(), seen.st_size);
    } while (probe_more());
    return probe_pass();
}
