// SPDX-License-Identifier: Apache-2.0
// A mapping with MAP_GROWSDOWN (like a stack) still grows when touched below.
#include "probe.h"

enum { PAGE = 4096, ROOM = 512 * PAGE };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *room =
        PROBE_MAP(mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    PROBE_TRY(munmap(room, ROOM)); // now known to be free
    unsigned char *low = room + ROOM - 2 * PAGE;
    PROBE_MAP(mmap(low, 2 * PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE, -1, 0));
    low[0] = 'l';
    do {
        probe_ready();
        PROBE_SABOTAGE("contents", low[0] = 'x');
        probe_equal("contents of the lowest page", 'l', low[0]);
        low -= PAGE;
        low[0] = 'l'; // a fault here ends the program, which fails the test
    } while (probe_more());
    return probe_pass();
}
