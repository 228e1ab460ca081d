// SPDX-License-Identifier: Apache-2.0
// A file that was renamed after it was opened.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = PROBE_TRY(open(probe_path("old"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(dprintf(fd, "the renamed one\n"));
    PROBE_TRY(rename(probe_path("old"), probe_path("new")));
    int other = PROBE_TRY(open(probe_path("old"), O_CREAT | O_WRONLY, 0600));
    PROBE_TRY(dprintf(other, "the newcomer\n"));
    do {
        probe_ready();
        PROBE_SABOTAGE("contents", dup2(other, fd));
        char found[32] = "";
        pread(fd, found, 15, 0);
        probe_equal_text("contents of the renamed file", "the renamed one", found);
        struct stat by_name, by_fd;
        PROBE_TRY(stat(probe_path("new"), &by_name));
        PROBE_TRY(fstat(fd, &by_fd));
        probe_equal("inode of the renamed file", (long long)by_name.st_ino,
                    (long long)by_fd.st_ino);
    } while (probe_more());
    return probe_pass();
}
