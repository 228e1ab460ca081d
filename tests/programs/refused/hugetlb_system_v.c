// SPDX-License-Identifier: Apache-2.0
// A System V segment of hugetlb's pages.
#include "probe.h"

#include <sys/ipc.h>
#include <sys/shm.h>

enum { SIZE = 2 * 1024 * 1024 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int id = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | SHM_HUGETLB | 0600);
    if (id < 0) {
        probe_lacks("a free huge page");
    }
    unsigned char *memory = shmat(id, NULL, 0);
    PROBE_TRY(shmctl(id, IPC_RMID, NULL));
    if (memory == (void *)-1) {
        probe_lacks("a free huge page");
    }
    probe_fill(memory, SIZE, 1);
    do {
        probe_ready();
        PROBE_SABOTAGE("contents", memory[SIZE - 1] ^= 1);
        probe_filled("contents of huge pages", memory, SIZE, 1);
    } while (probe_more());
    return probe_pass();
}
