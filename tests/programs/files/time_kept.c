// SPDX-License-Identifier: Apache-2.0
// A file that is open for writing, but not written to, keeps its modification time.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int fd = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(write(fd, "contents", 8));
    const struct timespec times[2] = {{123456, 7}, {234567, 8}};
    PROBE_TRY(futimens(fd, times));
    do {
        probe_ready();
        PROBE_SABOTAGE("time", write(fd, "more", 4));
        struct stat seen;
        PROBE_TRY(fstat(fd, &seen));
        probe_equal("time of the last change, seconds", 234567, seen.st_mtim.tv_sec);
        probe_equal("time of the last change, nanoseconds", 8, seen.st_mtim.tv_nsec);
    } while (probe_more());
    return probe_pass();
}
