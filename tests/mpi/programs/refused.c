/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a program from being saved: refused WINDOW|REQUEST. It goes on as if nothing was. */
#include "check.h"
#include "pause.h"

#include <string.h>

int main(int argc, char **argv)
{
    int rank, number = 1, sum = 0;
    MPI_Win window = MPI_WIN_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    if (strcmp(argv[1], "window") == 0)
        OK(MPI_Win_create(&number, sizeof(number), sizeof(number), MPI_INFO_NULL, MPI_COMM_WORLD,
                          &window));
    else
        OK(MPI_Irecv(&sum, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &request));
    wait_here(rank);
    if (window != MPI_WIN_NULL) {
        OK(MPI_Win_free(&window));
    } else {
        OK(MPI_Send(&number, 1, MPI_INT, rank, 5, MPI_COMM_WORLD));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(sum == number);
    }
    OK(MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    printf("%d: %d\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
