/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the test programs. CHECK ends the whole job with the place and the reason.
 *
 *     CHECK(MPI_Send(...) == MPI_SUCCESS);
 *     printf("%d: %016llx\n", rank, mix(sum, data, bytes));
 */
#ifndef CRYO_TESTS_MPI_CHECK_H
#define CRYO_TESTS_MPI_CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                          \
        }                                                                                          \
    } while (0)

#define OK(call) CHECK((call) == MPI_SUCCESS)

/* FNV-1a, to compare results between runs. */
static inline unsigned long long mix(unsigned long long sum, const void *data, size_t bytes)
{
    const unsigned char *byte = (const unsigned char *)data;
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ byte[i]) * 1099511628211ULL;
    return sum;
}

/* Keeps a job from ending before it is saved: waits while the file named by CRYO_HOLD exists. */
static inline void wait_to_end(void)
{
    const char *hold = getenv("CRYO_HOLD");
    while (hold != NULL && access(hold, F_OK) == 0)
        usleep(1000);
}

#endif
