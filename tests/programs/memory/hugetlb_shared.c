// SPDX-License-Identifier: Apache-2.0
// Shared pages of hugetlb: anonymous ones, a memory file with its descriptor, one that is only
// mapped, and a private mapping of it; all of them are still huge.
#include "probe.h"

#include <linux/memfd.h>
#include <sys/vfs.h>

enum { HUGE = 2 * 1024 * 1024 };

static unsigned char *map(int kind, int fd, off_t offset)
{
    void *at =
        mmap(NULL, HUGE, PROT_READ | PROT_WRITE, kind | (fd < 0 ? MAP_ANONYMOUS : 0), fd, offset);
    if (at == MAP_FAILED) {
        probe_lacks("a free huge page");
    }
    return at;
}

static int memory_file(const char *name, off_t size)
{
    const int fd = PROBE_TRY(memfd_create(name, MFD_HUGETLB | MFD_ALLOW_SEALING));
    PROBE_TRY(ftruncate(fd, size));
    return fd;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *anonymous = map(MAP_SHARED | MAP_HUGETLB, -1, 0);
    const int fd = memory_file("huge", 2 * HUGE);
    unsigned char *second = map(MAP_SHARED, fd, HUGE); // the first page is a hole
    PROBE_TRY(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
    const int closed = memory_file("closed", HUGE);
    unsigned char *mapped = map(MAP_SHARED, closed, 0);
    unsigned char *private = map(MAP_PRIVATE, closed, 0);
    PROBE_TRY(close(closed));
    do {
        const unsigned cycle = probe_cycle();
        probe_fill(anonymous, HUGE, cycle);
        probe_fill(second, HUGE, cycle + 1);
        probe_fill(mapped, HUGE, cycle + 2);
        private[HUGE / 2] = (unsigned char)cycle;
        probe_ready();
        PROBE_SABOTAGE("anonymous", anonymous[HUGE - 1] ^= 1);
        PROBE_SABOTAGE("file", second[HUGE - 1] ^= 1);
        PROBE_SABOTAGE("mapped", mapped[1] ^= 1);
        PROBE_SABOTAGE("private", private[HUGE / 2] ^= 1);
        probe_filled("anonymous memory", anonymous, HUGE, cycle);
        probe_filled("memory file", second, HUGE, cycle + 1);
        probe_filled("mapped memory file", mapped, HUGE, cycle + 2);
        probe_equal("private copy of its page", (unsigned char)cycle, private[HUGE / 2]);
        unsigned char found[2] = {1, 1};
        probe_equal("reading across the hole's end", 2, pread(fd, found, 2, HUGE - 1));
        probe_equal("byte of the hole", 0, found[0]);
        second[0] ^= 0x80; // file and mapping share the page
        const unsigned char written = second[0];
        PROBE_TRY(pread(fd, found, 1, HUGE));
        second[0] ^= 0x80;
        probe_equal("byte written through the mapping", written, found[0]);
        probe_equal("seals", F_SEAL_SHRINK | F_SEAL_GROW, fcntl(fd, F_GET_SEALS));
        struct statfs system;
        PROBE_TRY(fstatfs(fd, &system));
        probe_equal("size of the file's pages", HUGE, system.f_bsize);
        // Only a huge mapping refuses to be split inside a huge page.
        probe_equal("cutting anonymous memory inside a page", -1, munmap(anonymous + 4096, 4096));
        probe_equal("cutting the file inside a page", -1, munmap(second + 4096, 4096));
        probe_equal("cutting a private page", -1, munmap(private + 4096, 4096));
    } while (probe_more());
    return probe_pass();
}
