// SPDX-License-Identifier: Apache-2.0
// A segment of the program's own (modify_ldt), as emulators of other systems use them.
#include "probe.h"

#include <asm/ldt.h>

enum { NUMBER = 3, BASE = 0x12000 };

static void set_segment(int present)
{
    struct user_desc segment = {.entry_number = NUMBER,
                                .base_addr = BASE,
                                .limit = 0xfff,
                                .seg_32bit = 1,
                                .useable = 1,
                                .seg_not_present = !present};
    if (syscall(SYS_modify_ldt, 0x11, &segment, sizeof segment) != 0) {
        probe_lacks("modify_ldt");
    }
}

// A descriptor's base lies in three pieces.
static unsigned base_of(uint64_t descriptor)
{
    return (unsigned)(descriptor >> 16 & 0xffffff) | (unsigned)(descriptor >> 56 << 24);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    set_segment(1);
    do {
        uint64_t table[NUMBER + 1] = {0};
        const uint64_t present = 1ULL << 47;
        probe_ready();
        PROBE_SABOTAGE("segment", set_segment(0));
        probe_equal("size of the table", sizeof table,
                    syscall(SYS_modify_ldt, 0, table, sizeof table));
        probe_true("the segment is there", (table[NUMBER] & present) != 0);
        probe_equal("base of the segment", BASE, base_of(table[NUMBER]));
    } while (probe_more());
    return probe_pass();
}
