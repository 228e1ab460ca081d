// SPDX-License-Identifier: Apache-2.0
// A FIFO between a process and its child, each with one end that it opened by name: with contents,
// and end of file once the writer has closed it.
#include "probe.h"

enum { SIZE = 20000 };

static void writer(void)
{
    static unsigned char block[SIZE];
    const int fifo = (int)PROBE_TRY(open(probe_path("fifo"), O_WRONLY));
    for (unsigned part = 0; part < 2; part++) {
        probe_fill(block, SIZE, probe_cycle() * 10 + part);
        PROBE_SABOTAGE("contents", block[part * 7]++);
        probe_equal("bytes written", SIZE, write(fifo, block, SIZE));
        if (part == 0) {
            probe_await_check(); // the first part is in it while the tree is saved
        }
    }
    PROBE_TRY(close(fifo));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(mkfifo(probe_path("fifo"), 0600));
    do {
        static unsigned char got[2 * SIZE + 1];
        const int fifo = (int)PROBE_TRY(open(probe_path("fifo"), O_RDONLY | O_NONBLOCK));
        PROBE_TRY(fcntl(fifo, F_SETFL, 0));
        const pid_t child = probe_fork(writer);
        probe_ready();
        size_t size = 0;
        for (ssize_t part; (part = read(fifo, got + size, sizeof got - size)) > 0;) {
            size += (size_t)part;
        }
        probe_equal("bytes read up to the end", 2 * SIZE, (long long)size);
        probe_filled("contents of the FIFO before", got, SIZE, probe_cycle() * 10);
        probe_filled("contents of the FIFO after", got + SIZE, SIZE, probe_cycle() * 10 + 1);
        PROBE_TRY(close(fifo));
        probe_reap("writer", child);
    } while (probe_more());
    return probe_pass();
}
