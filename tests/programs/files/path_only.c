// SPDX-License-Identifier: Apache-2.0
// A descriptor opened with O_PATH, of a file and of a directory.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int made = PROBE_TRY(open(probe_path("file"), O_CREAT | O_WRONLY, 0600));
    PROBE_TRY(close(made));
    int file = PROBE_TRY(open(probe_path("file"), O_PATH));
    int directory = PROBE_TRY(open(probe_path("."), O_PATH | O_DIRECTORY));
    do {
        probe_ready();
        PROBE_SABOTAGE("path only", dup2(PROBE_TRY(open(probe_path("file"), O_RDONLY)), file));
        PROBE_SABOTAGE("directory", dup2(PROBE_TRY(open("/proc", O_PATH)), directory));
        char byte;
        probe_equal("path only: reading it", -1, read(file, &byte, 1));
        probe_equal("path only: errno", EBADF, errno);
        probe_equal("path only: flag", O_PATH, fcntl(file, F_GETFL) & O_PATH);
        probe_equal("file found through the directory", 0, faccessat(directory, "file", F_OK, 0));
    } while (probe_more());
    return probe_pass();
}
