// SPDX-License-Identifier: Apache-2.0
// An unlinked file lives on in its descriptor.
#include "probe.h"

enum { SIZE = 3 * 4096 + 17 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    static unsigned char content[SIZE];
    probe_fill(content, SIZE, 5);
    int fd = PROBE_TRY(open(probe_path("gone"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(write(fd, content, SIZE));
    PROBE_TRY(unlink(probe_path("gone")));
    PROBE_TRY(lseek(fd, 100, SEEK_SET));
    const struct timespec times[2] = {{123456, 7}, {234567, 8}};
    PROBE_TRY(futimens(fd, times));
    do {
        probe_ready();
        PROBE_SABOTAGE("contents", pwrite(fd, "\0\0", 2, 4097));
        PROBE_SABOTAGE("size", ftruncate(fd, SIZE + 1));
        struct stat seen;
        PROBE_TRY(fstat(fd, &seen));
        probe_equal("size of the unlinked file", SIZE, seen.st_size);
        probe_equal("time of its contents", 234567, seen.st_mtim.tv_sec);
        probe_equal("links to it", 0, (long long)seen.st_nlink);
        probe_equal("offset in it", 100, lseek(fd, 0, SEEK_CUR));
        static unsigned char found[SIZE];
        probe_equal("bytes read from it", SIZE, pread(fd, found, SIZE, 0));
        probe_filled("contents of the unlinked file", found, SIZE, 5);
    } while (probe_more());
    return probe_pass();
}
