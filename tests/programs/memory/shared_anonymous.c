// SPDX-License-Identifier: Apache-2.0
// Shared anonymous memory: contents, and that a child made later still shares it.
#include "probe.h"

enum { SIZE = 64 * 4096 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *memory =
        PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    do {
        probe_fill(memory, SIZE, probe_cycle());
        probe_ready();
        PROBE_SABOTAGE("contents", memory[9 * 4096] ^= 1);
        PROBE_SABOTAGE("sharing", mmap(memory, SIZE, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
                       probe_fill(memory, SIZE, probe_cycle()));
        probe_filled("contents of shared memory", memory, SIZE, probe_cycle());
        const pid_t child = PROBE_TRY(fork());
        if (child == 0) {
            memory[17] = 'c';
            _exit(0);
        }
        PROBE_TRY(waitpid(child, NULL, 0));
        probe_equal("sharing with a child", 'c', memory[17]);
    } while (probe_more());
    return probe_pass();
}
