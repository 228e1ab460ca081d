// SPDX-License-Identifier: Apache-2.0
// A private file mapping: modified pages keep the modification, untouched ones show the file, and
// the file itself is never changed.
#include "probe.h"

enum { PAGE = 4096, SIZE = 32 * PAGE };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    static unsigned char content[SIZE];
    probe_fill(content, SIZE, 1);
    int fd = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(write(fd, content, SIZE));
    unsigned char *memory = PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    const unsigned char *tail =
        PROBE_MAP(mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fd, 30 * PAGE));
    memory[3 * PAGE] = 0;
    do {
        probe_ready();
        PROBE_SABOTAGE("modified page", madvise(memory + 3 * PAGE, PAGE, MADV_DONTNEED));
        PROBE_SABOTAGE("untouched page", memory[9 * PAGE] ^= 1);
        PROBE_SABOTAGE("the file", pwrite(fd, "\0", 1, 31 * PAGE));
        probe_equal("modified page", 0, memory[3 * PAGE]);
        probe_equal_bytes("rest of the modified page", content + 3 * PAGE + 1,
                          memory + 3 * PAGE + 1, PAGE - 1);
        probe_equal_bytes("untouched page", content + 4 * PAGE, memory + 4 * PAGE, 26 * PAGE);
        unsigned char found[PAGE];
        probe_equal("bytes read", PAGE, pread(fd, found, PAGE, 3 * PAGE));
        probe_equal_bytes("contents of the file", content + 3 * PAGE, found, PAGE);
        probe_equal_bytes("the file at an offset", content + 30 * PAGE, tail, 2 * PAGE);
    } while (probe_more());
    return probe_pass();
}
