/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are open while the program is saved: views, positions; later writes are undone. */
#include "check.h"
#include "pause.h"

#include <string.h>

enum { BLOCK = 5 };

int main(int argc, char **argv)
{
    int rank, size, numbers[BLOCK], read[4 * BLOCK], flag;
    char name[4096], beside[4096], ordered[4096];
    MPI_File file, text, sequence;
    MPI_Datatype stripes;
    MPI_Offset position, bytes;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    snprintf(name, sizeof(name), "%s/striped", getenv("CRYO_SCRATCH"));
    snprintf(beside, sizeof(beside), "%s/own.%d", getenv("CRYO_SCRATCH"), rank);

    /* Each rank writes every size-th block. */
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR,
                     MPI_INFO_NULL, &file));
    OK(MPI_Type_vector(4, BLOCK, BLOCK * size, MPI_INT, &stripes));
    OK(MPI_Type_commit(&stripes));
    OK(MPI_File_set_view(file, (MPI_Offset)sizeof(int) * BLOCK * rank, MPI_INT, stripes, "native",
                         MPI_INFO_NULL));
    for (int i = 0; i < BLOCK; i++)
        numbers[i] = 100 * rank + i;
    OK(MPI_File_write_all(file, numbers, BLOCK, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_Type_free(&stripes));
    OK(MPI_File_set_atomicity(file, 1));
    OK(MPI_File_open(MPI_COMM_SELF, beside, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL,
                     &text));
    OK(MPI_File_write(text, "before ", 7, MPI_CHAR, MPI_STATUS_IGNORE));
    /* The written data is read back in order: a header, and one number per rank. */
    snprintf(ordered, sizeof(ordered), "%s/ordered", getenv("CRYO_SCRATCH"));
    OK(MPI_File_open(MPI_COMM_WORLD, ordered, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL,
                     &sequence));
    for (int i = 0; i < 4; i++)
        OK(MPI_File_write_at(sequence, (MPI_Offset)(i * size + rank) * (MPI_Offset)sizeof(int),
                             &(int){100 * i + rank}, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&sequence));
    OK(MPI_File_open(MPI_COMM_WORLD, ordered,
                     MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &sequence));
    OK(MPI_File_read_ordered(sequence, &numbers[0], 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(numbers[0] == rank);
    OK(MPI_File_set_view(sequence, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native",
                         MPI_INFO_NULL));
    OK(MPI_File_read_ordered(sequence, &numbers[0], 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(numbers[0] == 100 + rank);
    numbers[0] = 100 * rank;
    wait_here(rank);

    OK(MPI_File_get_position(file, &position));
    OK(MPI_File_get_atomicity(file, &flag));
    CHECK(position == BLOCK && flag);
    for (int i = 0; i < BLOCK; i++)
        numbers[i] += 1000;
    OK(MPI_File_write_all(file, numbers, BLOCK, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all(file, 0, read, 2 * BLOCK, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_write(text, "after", 5, MPI_CHAR, MPI_STATUS_IGNORE));
    OK(MPI_File_get_size(text, &bytes));
    int mode, third, fourth;
    OK(MPI_File_get_amode(sequence, &mode));
    CHECK(mode == (MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_DELETE_ON_CLOSE));
    OK(MPI_File_read_ordered(sequence, &third, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_ordered(sequence, &fourth, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(third == 200 + rank && fourth == 300 + rank);
    OK(MPI_File_close(&sequence));
    CHECK(fopen(ordered, "r") == NULL);
    OK(MPI_File_close(&text));
    OK(MPI_File_close(&file));
    char line[64] = "";
    FILE *own = fopen(beside, "r");
    CHECK(own != NULL && fgets(line, sizeof(line), own) != NULL);
    fclose(own);
    printf("%d: %016llx, '%s', %d bytes\n", rank, mix(1, read, 2 * BLOCK * sizeof(int)), line,
           (int)bytes);
    OK(MPI_Finalize());
    return 0;
}
