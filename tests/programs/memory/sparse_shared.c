// SPDX-License-Identifier: Apache-2.0
// Shared memory with few touched pages, some of them by a child that has ended: untouched pages are
// neither saved nor allocated, in the program and in the restored one. One part is anonymous, the
// other a POSIX object that is known by no name and no descriptor any more.
#include "probe.h"

#include <fcntl.h>

#define SIZE (1UL << 28)

enum { TOUCHED = 10, MOST_KIB = 32768 };

// KiB of shared memory that the process has mapped.
static long shared_kib(void)
{
    char line[200];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    probe_true("status", status != NULL);
    while (fgets(line, sizeof(line), status) != NULL)
        sscanf(line, "RssShmem: %ld", &kib);
    fclose(status);
    return kib;
}

static unsigned char *unnamed(void)
{
    char name[64];
    snprintf(name, sizeof(name), "/sparse_shared.%d", (int)getpid());
    const int fd = PROBE_TRY(shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600));
    PROBE_TRY(shm_unlink(name));
    PROBE_TRY(ftruncate(fd, SIZE));
    unsigned char *memory =
        PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0));
    PROBE_TRY(close(fd));
    return memory;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *memory = PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    unsigned char *object = unnamed();
    const pid_t child = PROBE_TRY(fork());
    if (child == 0) {
        for (size_t i = 0; i < TOUCHED; i += 2) {
            memory[i * (SIZE / TOUCHED)] = probe_byte(3, i);
            object[i * (SIZE / TOUCHED)] = probe_byte(5, i);
        }
        _exit(0);
    }
    PROBE_TRY(waitpid(child, NULL, 0));
    for (size_t i = 1; i < TOUCHED; i += 2) {
        memory[i * (SIZE / TOUCHED)] = probe_byte(3, i);
        object[i * (SIZE / TOUCHED)] = probe_byte(5, i);
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("touched page", memory[SIZE / TOUCHED * 9] ^= 1);
        PROBE_SABOTAGE("touched page of the object", object[SIZE / TOUCHED * 9] ^= 1);
        PROBE_SABOTAGE("resident memory",
                       for (size_t i = 0; i < 2 * MOST_KIB / 4; i++) memory[i * 4096 + 1] = 1);
        probe_true("resident memory", shared_kib() >= 0 && shared_kib() < MOST_KIB);
        for (size_t i = 0; i < TOUCHED; i++) {
            probe_equal("touched page", probe_byte(3, i), memory[i * (SIZE / TOUCHED)]);
            probe_equal("touched page of the object", probe_byte(5, i),
                        object[i * (SIZE / TOUCHED)]);
        }
    } while (probe_more());
    return probe_pass();
}
