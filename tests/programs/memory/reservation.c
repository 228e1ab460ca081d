// SPDX-License-Identifier: Apache-2.0
// More address space than the machine has memory, reserved without access and used in a few places;
// and a large mapping that was partly written and is now read-only.
#include "probe.h"

enum { PAGE = 4096 };
static const size_t reserved = (size_t)8 << 40;
static const size_t large = (size_t)256 << 20;

// The rights that /proc shows for the mapping at this address, or an empty string.
static void rights_at(const void *address, char rights[5])
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    rights[0] = 0;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long start, end;
        char found[5];
        if (sscanf(line, "%lx-%lx %4s", &start, &end, found) == 3 &&
            start <= (unsigned long)address && (unsigned long)address < end) {
            memcpy(rights, found, sizeof found);
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
}

static void expect_rights(const char *what, const char *expected, const void *address)
{
    char rights[5];
    rights_at(address, rights);
    probe_equal(what, 1, strcmp(expected, rights) == 0);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *room =
        PROBE_MAP(mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    unsigned char *used = room + reserved / 2;
    PROBE_TRY(mprotect(used, PAGE, PROT_READ | PROT_WRITE));
    *used = 1;
    unsigned char *table =
        PROBE_MAP(mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    table[large / 2] = 42;
    PROBE_TRY(mprotect(table, large, PROT_READ));
    do {
        probe_ready();
        PROBE_SABOTAGE("reservation", munmap(room, PAGE));
        PROBE_SABOTAGE("table", mprotect(table, PAGE, PROT_READ | PROT_WRITE));
        expect_rights("the reservation begins where it began", "---p", room);
        expect_rights("the reservation ends where it ended", "---p", room + reserved - 1);
        expect_rights("the table cannot be written", "r--p", table);
        probe_equal("contents of the table", 42, table[large / 2]);
        probe_equal("contents of the table's first page", 0, table[0]);
        probe_equal("contents of what is used", (long)probe_cycle(), *used);
        *used = (unsigned char)(probe_cycle() + 1);
        unsigned char *more = used + probe_cycle() * 16 * PAGE;
        PROBE_TRY(mprotect(more, PAGE, PROT_READ | PROT_WRITE));
        *more = 1;
    } while (probe_more());
    return probe_pass();
}
