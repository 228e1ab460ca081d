/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For profile.c: sums up numbers of all ranks, at its leisure. ROUNDS times.
 *
 *     profiled ROUNDS
 */
#include "check.h"

int main(int argc, char **argv)
{
    int rank, size;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    unsigned long long sum = 0;
    for (int i = 0; i < rounds; i++) {
        const int mine = rank + i;
        int all = 0;
        OK(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK(all == size * i + size * (size - 1) / 2);
        sum = mix(sum, &all, sizeof(all));
        usleep(5000);
    }
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
