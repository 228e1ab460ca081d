// SPDX-License-Identifier: Apache-2.0
// memfd with F_SEAL_FUTURE_WRITE: mappings made before can be written, also a child's; no new ones.
#include "probe.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum { SIZE = 3 * 4096, SEALS = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_SEAL };

static unsigned char *mapped;

static void write_in_child(void)
{
    probe_await_check();
    mapped[1] = 'c';
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = PROBE_TRY(memfd_create("window", MFD_ALLOW_SEALING | MFD_CLOEXEC));
    PROBE_TRY(ftruncate(fd, SIZE));
    mapped = PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    if (fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        probe_lacks("F_SEAL_FUTURE_WRITE");
    }
    do {
        mapped[SIZE - 1] = (unsigned char)probe_cycle();
        mapped[1] = 0;
        pid_t child = probe_fork(write_in_child);
        probe_ready();
        PROBE_SABOTAGE("seals", dup2(PROBE_TRY(memfd_create("other", 0)), fd));
        probe_reap("the child", child);
        probe_equal("seals", SEALS, fcntl(fd, F_GET_SEALS));
        unsigned char bytes[2];
        mapped[0] = (unsigned char)(probe_cycle() + 7);
        probe_equal("bytes read", 2, pread(fd, bytes, 2, 0));
        probe_equal("byte written through the mapping", mapped[0], bytes[0]);
        probe_equal("byte written by the child", 'c', bytes[1]);
        probe_equal("contents", (unsigned char)probe_cycle(), mapped[SIZE - 1]);
        probe_true("a new writable mapping is refused",
                   mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
        probe_equal("write", -1, pwrite(fd, "x", 1, 0));
    } while (probe_more());
    return probe_pass();
}
