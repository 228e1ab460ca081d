/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank notes again and again which of its incarnations acts, in $CRYO_WITNESS/acts.RANK. One that
 * finds that a younger one has begun, so that it is there twice, touches $CRYO_WITNESS/doubled.
 *
 *     bear_witness(rank);
 */
#ifndef CRYO_TESTS_MPI_WITNESS_H
#define CRYO_TESTS_MPI_WITNESS_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Clock ticks from the machine's start to this process's, which after a restart is another one. 0:
 * it was not to be had this time, as when the process has no descriptor left. */
static inline unsigned long long begun_at(void)
{
    char text[1024];
    const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    const ssize_t n = read(file, text, sizeof(text) - 1);
    if (file >= 0)
        close(file);
    text[n > 0 ? n : 0] = 0;
    const char *at = strrchr(text, ')'); /* behind the program's name */
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at != NULL ? strtoull(at, NULL, 10) : 0;
}

static inline void bear_witness(int rank)
{
    char name[4096];
    unsigned long long youngest = 0;
    const char *directory = getenv("CRYO_WITNESS");
    const unsigned long long mine = directory != NULL ? begun_at() : 0;
    if (mine == 0)
        return;
    snprintf(name, sizeof(name), "%s/acts.%d", directory, rank);
    const int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (pread(file, &youngest, sizeof(youngest), 0) == sizeof(youngest) && youngest > mine) {
        snprintf(name, sizeof(name), "%s/doubled", directory);
        close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    } else if (pwrite(file, &mine, sizeof(mine), 0) != sizeof(mine)) {
        perror(name);
    }
    close(file);
}

#endif
