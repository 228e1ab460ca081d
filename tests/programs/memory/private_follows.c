// SPDX-License-Identifier: Apache-2.0
// Private mappings of unlinked files: pages that the program has not changed continue to show what
// is written to the file.
#include "probe.h"

enum { PAGE = 4096, PAGES = 8, CHANGED = 3, WRITTEN = 5, COUNT = 3 };

static struct {
    const char *name;
    int fd;
    unsigned char *memory;
} files[COUNT] = {{"memfd", -1, NULL}, {"unlinked file", -1, NULL}, {"sealed memfd", -1, NULL}};

static void make(int i, const unsigned char *contents)
{
    files[i].fd = i == 1 ? (int)PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600))
                         : (int)PROBE_TRY(memfd_create("followed", i == 2 ? MFD_ALLOW_SEALING : 0));
    if (i == 1) {
        PROBE_TRY(unlink(probe_path("file")));
    }
    PROBE_TRY(pwrite(files[i].fd, contents, PAGES * PAGE, 0));
    if (i == 2) {
        PROBE_TRY(fcntl(files[i].fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK));
    }
    files[i].memory = PROBE_MAP(
        mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, files[i].fd, 0));
    files[i].memory[CHANGED * PAGE] = 'c';
    // Reading a page does not make it the program's own.
    probe_equal_bytes("page that was read", contents + WRITTEN * PAGE,
                      files[i].memory + WRITTEN * PAGE, PAGE);
}

int main(int argc, char **argv)
{
    static unsigned char contents[PAGES * PAGE];
    probe_start(argc, argv);
    probe_fill(contents, sizeof contents, 1);
    for (int i = 0; i < COUNT; i++) {
        make(i, contents);
    }
    do {
        probe_ready();
        const char now = (char)('A' + probe_cycle());
        for (int i = 0; i < COUNT; i++) {
            const unsigned char *memory = files[i].memory;
            PROBE_TRY(pwrite(files[i].fd, &now, 1, WRITTEN * PAGE));
            PROBE_TRY(pwrite(files[i].fd, &now, 1, CHANGED * PAGE + 1));
            PROBE_SABOTAGE("followed", files[i].memory[WRITTEN * PAGE] ^= 1);
            probe_equal(files[i].name, 'c', memory[CHANGED * PAGE]);
            probe_equal(files[i].name, contents[CHANGED * PAGE + 1], memory[CHANGED * PAGE + 1]);
            char what[48];
            snprintf(what, sizeof what, "followed %s", files[i].name);
            probe_equal(what, now, memory[WRITTEN * PAGE]);
            probe_equal_bytes(what, contents + WRITTEN * PAGE + 1, memory + WRITTEN * PAGE + 1,
                              PAGE - 1);
        }
    } while (probe_more());
    return probe_pass();
}
