// SPDX-License-Identifier: Apache-2.0
// Two processes and a pipe between them, with bytes in it, one end in each.
#include "probe.h"

enum { SIZE = 30000 };

static int ends[2];

static void producer(void)
{
    static unsigned char block[SIZE];
    close(ends[0]);
    for (unsigned part = 0; part < 2; part++) {
        probe_fill(block, SIZE, probe_cycle() * 10 + part);
        PROBE_SABOTAGE("contents", block[part * 7]++);
        probe_equal("bytes written", SIZE, write(ends[1], block, SIZE));
        if (part == 0) {
            probe_await_check(); // the first part is in the pipe while the tree is saved
        }
    }
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        static unsigned char got[2 * SIZE];
        PROBE_TRY(pipe(ends));
        const pid_t child = probe_fork(producer);
        close(ends[1]);
        probe_ready();
        size_t size = 0;
        for (ssize_t part; (part = read(ends[0], got + size, sizeof got - size)) > 0;) {
            size += (size_t)part;
        }
        probe_equal("bytes read up to the end", 2 * SIZE, (long long)size);
        probe_filled("contents of the pipe before", got, SIZE, probe_cycle() * 10);
        probe_filled("contents of the pipe after", got + SIZE, SIZE, probe_cycle() * 10 + 1);
        probe_reap("producer", child);
        close(ends[0]);
    } while (probe_more());
    return probe_pass();
}
