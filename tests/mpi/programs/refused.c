/* SPDX-License-Identifier: Apache-2.0 */
/* A pending receive keeps a rank from being saved alone. The program continues undisturbed. */
#include "check.h"
#include "pause.h"

int main(int argc, char **argv)
{
    int rank, number = 1, sum = 0;
    MPI_Request request;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Irecv(&sum, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &request));
    wait_here(rank);
    OK(MPI_Send(&number, 1, MPI_INT, rank, 5, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(sum == number);
    OK(MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    printf("%d: %d\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
