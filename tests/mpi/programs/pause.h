/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points at which a program pauses, outside MPI, while a test acts on it.
 *
 *     wait_here(rank);
 *
 * announces it in $CRYO_SCRATCH/here.PLACE.RANK, and waits for $CRYO_SCRATCH/go.PLACE; places are
 * counted from 0.
 */
#ifndef CRYO_TESTS_MPI_PAUSE_H
#define CRYO_TESTS_MPI_PAUSE_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void wait_here(int rank)
{
    static int place;
    char here[4096], beside[4096], go[4096];
    const char *directory = getenv("CRYO_SCRATCH");
    snprintf(here, sizeof(here), "%s/here.%d.%d", directory, place, rank);
    snprintf(beside, sizeof(beside), "%s/.here.%d.%d", directory, place, rank);
    snprintf(go, sizeof(go), "%s/go.%d", directory, place);
    FILE *file = fopen(beside, "w");
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
    rename(beside, here);
    while (access(go, F_OK) != 0)
        usleep(2000);
    place++;
}

#endif
