// SPDX-License-Identifier: Apache-2.0
// A file of hugetlbfs: the contents of a named one revert to the checkpoint's, like those of POSIX
// shared memory, and so do those of an unlinked one.
#include "probe.h"

enum { HUGE = 2 * 1024 * 1024 };

static unsigned char *map(int fd)
{
    PROBE_TRY(ftruncate(fd, HUGE));
    void *at = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        probe_lacks("a free huge page");
    }
    return at;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    char name[64], gone[64];
    snprintf(name, sizeof name, "/dev/hugepages/probe.%d", getpid());
    snprintf(gone, sizeof gone, "/dev/hugepages/gone.%d", getpid());
    const int fd = PROBE_TRY(open(name, O_CREAT | O_RDWR, 0600));
    unsigned char *named = map(fd);
    const int other = PROBE_TRY(open(gone, O_CREAT | O_RDWR, 0600));
    unsigned char *nameless = map(other);
    PROBE_TRY(unlink(gone));
    PROBE_TRY(close(other));
    do {
        const unsigned cycle = probe_cycle();
        probe_fill(named, HUGE, cycle);
        probe_fill(nameless, HUGE, cycle + 1);
        probe_ready();
        PROBE_SABOTAGE("named", named[HUGE - 1] ^= 1);
        PROBE_SABOTAGE("nameless", nameless[0] ^= 1);
        probe_filled("named file", named, HUGE, cycle);
        probe_filled("nameless file", nameless, HUGE, cycle + 1);
        struct stat by_name, by_descriptor;
        PROBE_TRY(stat(name, &by_name));
        PROBE_TRY(fstat(fd, &by_descriptor));
        probe_equal("the file by its name", (long)by_name.st_ino, (long)by_descriptor.st_ino);
        probe_equal("cutting inside a page", -1, munmap(named + 4096, 4096));
    } while (probe_more());
    unlink(name);
    return probe_pass();
}
