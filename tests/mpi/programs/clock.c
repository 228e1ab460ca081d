/* SPDX-License-Identifier: Apache-2.0 */
/* Reads MPI_Wtime continuously while it is saved and restored: it never runs backwards and never
 * leaps. */
#include "check.h"

#include <unistd.h>

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    int me;
    double before;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &me));
    before = MPI_Wtime();
    for (int i = 0; i < rounds; i++) {
        usleep(1000);
        const double now = MPI_Wtime();
        CHECK(now > before);
        CHECK(now - before < 60);
        before = now;
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    wait_to_end();
    printf("%d: %016x\n", me, (unsigned)rounds);
    OK(MPI_Finalize());
    return 0;
}
