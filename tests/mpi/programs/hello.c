/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest program: rank, size, one reduction. */
#include "check.h"

int main(int argc, char **argv)
{
    int rank, size, sum, version, subversion;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Get_version(&version, &subversion));
    const int mine = rank + 1;
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    printf("%d of %d: sum %d, MPI %d.%d\n", rank, size, sum, version, subversion);
    OK(MPI_Finalize());
    return 0;
}
