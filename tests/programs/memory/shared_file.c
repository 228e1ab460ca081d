// SPDX-License-Identifier: Apache-2.0
// A shared file mapping: contents as they were, and writes go to the file.
#include "probe.h"

enum { SIZE = 16 * 4096 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(ftruncate(fd, SIZE));
    unsigned char *memory = PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    do {
        probe_fill(memory, SIZE, probe_cycle());
        memset(memory + SIZE - 4096, 0, 4096);
        probe_ready();
        PROBE_SABOTAGE("zero", memory[SIZE - 1] = 1);
        PROBE_SABOTAGE("contents", memory[77] ^= 1);
        PROBE_SABOTAGE("file",
                       mmap(memory, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0));
        probe_filled("contents of the mapping", memory, SIZE - 4096, probe_cycle());
        for (int i = SIZE - 4096; i < SIZE; i++) {
            probe_equal("byte of a zero page", 0, memory[i]);
        }
        memset(memory + SIZE - 4096, 'z', 4096); // to be rolled back
        memory[5] = 'w';
        char found;
        PROBE_TRY(pread(fd, &found, 1, 5));
        probe_equal("byte of the file after writing to memory", 'w', found);
    } while (probe_more());
    return probe_pass();
}
