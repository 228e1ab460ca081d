/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest program that is restarted: one reduction before, one after. */
#include "check.h"
#include "pause.h"

int main(int argc, char **argv)
{
    int rank, size, before, after, flag;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    const int mine = rank + 1;
    OK(MPI_Allreduce(&mine, &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    wait_here(rank);
    OK(MPI_Initialized(&flag));
    CHECK(flag);
    OK(MPI_Allreduce(&before, &after, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(after == before * size);
    wait_here(rank);
    OK(MPI_Bcast(&after, 1, MPI_INT, 0, MPI_COMM_WORLD));
    printf("%d of %d: %d, then %d\n", rank, size, before, after);
    OK(MPI_Finalize());
    return 0;
}
