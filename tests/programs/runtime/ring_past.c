// SPDX-License-Identifier: Apache-2.0
// An io_uring ring that was used and closed: the kernel's worker thread stays, and nothing stops
// it.
#include "ring.h"

#include <dirent.h>

static void use_ring(void)
{
    struct ring ring;
    if (!ring_open(&ring))
        probe_lacks("io_uring");
    ring_read_by_worker(&ring);
    ring_close(&ring);
}

static unsigned threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    unsigned found = 0;
    for (struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;)
        found += entry->d_name[0] != '.';
    closedir(tasks);
    return found;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    use_ring();
    probe_true("a worker that stays", threads() > 1);
    do {
        probe_ready();
        use_ring();
    } while (probe_more());
    return probe_pass();
}
