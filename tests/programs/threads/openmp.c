// SPDX-License-Identifier: Apache-2.0
// OpenMP: a parallel region in progress, worker threads kept between regions, and new regions.
#include "probe.h"

#include <omp.h>

enum { COUNT = 4, SIZE = 100000 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    omp_set_num_threads(COUNT);
    static double values[SIZE];
    do {
        int inside = 0;
        double sum = 0;
#pragma omp parallel reduction(+ : sum)
        {
#pragma omp for
            for (int i = 0; i < SIZE; i++) {
                values[i] = i * 0.5;
            }
            const int me = omp_get_thread_num();
#pragma omp master
            probe_ready(); // the other threads wait at the barrier
#pragma omp barrier
            probe_equal("number of a thread", me, omp_get_thread_num());
#pragma omp for
            for (int i = 0; i < SIZE; i++) {
                sum += values[i];
            }
#pragma omp atomic
            inside++;
        }
        PROBE_SABOTAGE("sum", sum += 1);
        probe_equal("threads in the region", COUNT, inside);
        probe_equal("sum over all threads", (long long)SIZE * (SIZE - 1) / 4, (long long)sum);
        long total = 0;
#pragma omp parallel for schedule(dynamic, 100) reduction(+ : total)
        for (int i = 0; i < SIZE; i++) {
            total += i % 7;
        }
        probe_equal("sum in a later region", 299995, total);
    } while (probe_more());
    return probe_pass();
}
