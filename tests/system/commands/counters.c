// SPDX-License-Identifier: Apache-2.0
// Processes whose every thread counts, in a file that others can read.
//
//     counters FILE THREADS PROCESSES     a process and its children, each with that many threads
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile uint64_t *counts;

static void *count(void *mine)
{
    volatile uint64_t *own = mine;
    for (;;) {
        ++*own;
        usleep(1000);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const int threads = argc > 2 ? atoi(argv[2]) : 1;
    const int processes = argc > 3 ? atoi(argv[3]) : 1;
    const int file = argc > 1 ? open(argv[1], O_RDWR) : -1;
    const size_t size = sizeof(*counts) * (size_t)(threads * processes);
    if (file < 0 || ftruncate(file, (off_t)size) != 0) {
        return 2;
    }
    counts = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counts == MAP_FAILED) {
        return 2;
    }
    int number = 0;
    while (number + 1 < processes && fork() == 0) {
        prctl(PR_SET_PDEATHSIG, 9);
        number++;
    }
    volatile uint64_t *mine = &counts[number * threads];
    for (int i = 1; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, count, (void *)&mine[i]) != 0) {
            return 2;
        }
    }
    count((void *)mine);
    return 0;
}
