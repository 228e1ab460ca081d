/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that have memory in common which is of no window of MPI's: each writes its word, and all
 * read them.
 *
 *     common named ROUNDS    its name in /dev/shm is that of $CRYO_SCRATCH, and stays until the end
 *     common named           likewise; two rounds, with a pause in between
 *     common nameless        the name is removed when all have mapped it
 */
#include "pause.h"
#include "ring.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

enum { bytes = 65536 };

static const char *name_of_memory(void)
{
    const char *directory = getenv("CRYO_SCRATCH");
    const char *name = directory != NULL ? strrchr(directory, '/') : NULL;
    CHECK(name != NULL);
    return name;
}

static volatile int *map_memory(const char *name)
{
    int file = -1;
    if (rank == 0) {
        CHECK((file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600)) >= 0);
        CHECK(ftruncate(file, bytes) == 0);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank != 0)
        CHECK((file = shm_open(name, O_RDWR, 0)) >= 0);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(memory != MAP_FAILED);
    close(file);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return (volatile int *)memory;
}

int main(int argc, char **argv)
{
    const int named = argc > 1 && strcmp(argv[1], "named") == 0;
    const int rounds = argc > 2 ? atoi(argv[2]) : 2;
    unsigned long long sum = 14695981039346656037ULL;
    begin_ring(&argc, &argv);
    const char *name = name_of_memory();
    volatile int *memory = map_memory(name);
    if (!named && rank == 0)
        CHECK(shm_unlink(name) == 0);
    for (int round = 0; round < rounds; round++) {
        memory[rank] = 100 * round + rank;
        OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int other = 0; other < size; other++) {
            int word = memory[other];
            CHECK(word == 100 * round + other);
            sum = mix(sum, &word, sizeof(word));
        }
        pass_on(round, MPI_COMM_WORLD);
        if (argc == 2 && round == 0)
            wait_here(rank);
    }
    wait_to_end();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (named && rank == 0)
        CHECK(shm_unlink(name) == 0);
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
