/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of an uncontended critical section of libcr: enter and leave, in nanoseconds. */
#include <libcr.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    const long count = argc > 1 && atol(argv[1]) > 0 ? atol(argv[1]) : 1000000;
    const cr_client_id_t id = cr_init();
    double best = 1e9;
    for (int round = 0; round < 10; round++) {
        const double start = now();
        for (long i = 0; i < count; i++) {
            if (cr_enter_cs(id) != 0 || cr_leave_cs(id) != 0)
                return 1;
        }
        const double each = (now() - start) / (double)count;
        best = each < best ? each : best;
    }
    printf("cr_enter_cs + cr_leave_cs: %.1f ns (target 20, %s)\n", best,
           best <= 20 ? "met" : "missed");
    return cr_status() == CR_STATE_IDLE ? 0 : 1;
}
