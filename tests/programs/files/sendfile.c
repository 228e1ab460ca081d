// SPDX-License-Identifier: Apache-2.0
// A copy in progress by sendfile: both positions continue.
#include "probe.h"

#include <sys/sendfile.h>

enum { SIZE = 100000, STEP = 7777 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    static char content[SIZE], found[SIZE];
    probe_fill(content, SIZE, 3);
    int from = PROBE_TRY(open(probe_path("from"), O_CREAT | O_RDWR, 0600));
    int into = PROBE_TRY(open(probe_path("into"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(pwrite(from, content, SIZE, 0));
    off_t copied = 0;
    do {
        copied += PROBE_TRY(sendfile(into, from, NULL, STEP));
        probe_ready();
        PROBE_SABOTAGE("source position", lseek(from, 0, SEEK_SET));
        PROBE_SABOTAGE("target position", lseek(into, 0, SEEK_SET));
        probe_equal("source position", copied, lseek(from, 0, SEEK_CUR));
        probe_equal("target position", copied, lseek(into, 0, SEEK_CUR));
        copied += PROBE_TRY(sendfile(into, from, NULL, STEP));
        probe_equal("bytes copied", copied, pread(into, found, SIZE, 0));
        probe_filled("copy", found, (size_t)copied, 3);
    } while (probe_more());
    return probe_pass();
}
