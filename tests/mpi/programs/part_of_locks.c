/* SPDX-License-Identifier: Apache-2.0 */
/* A library that locks.c loads. Its constructor and destructor run under the loader's lock. */
#include <time.h>

int part_of_locks(void);

static void take_time(void)
{
    struct timespec begun, time;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do
        clock_gettime(CLOCK_MONOTONIC, &time);
    while ((time.tv_sec - begun.tv_sec) * 1000000000L + time.tv_nsec - begun.tv_nsec < 400000);
}

__attribute__((constructor)) static void begin(void)
{
    take_time();
}

__attribute__((destructor)) static void end(void)
{
    take_time();
}

int part_of_locks(void)
{
    return 1;
}
