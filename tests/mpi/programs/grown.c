/* SPDX-License-Identifier: Apache-2.0 */
/* Many files of all ranks, open while the program is saved: each has the size again that it had,
 * whatever was written to it afterwards. Prints the sizes. */
#include "check.h"
#include "pause.h"

enum { FILES = 100 };

static MPI_File files[FILES];

int main(int argc, char **argv)
{
    int rank;
    unsigned long long sum = 14695981039346656037ULL;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    for (int i = 0; i < FILES; i++) {
        char name[4096];
        snprintf(name, sizeof(name), "%s/grown.%d.data", getenv("CRYO_SCRATCH"), i);
        OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                         &files[i]));
        OK(MPI_File_set_size(files[i], 10 + i));
    }
    wait_here(rank);
    for (int i = 0; i < FILES; i++) {
        MPI_Offset size = 0;
        OK(MPI_File_get_size(files[i], &size));
        CHECK(size == 10 + i);
        sum = mix(sum, &size, sizeof(size));
        OK(MPI_File_close(&files[i]));
    }
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
