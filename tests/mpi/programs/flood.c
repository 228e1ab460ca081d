/* SPDX-License-Identifier: Apache-2.0 */
/* So many small buffered messages that the library keeps most of them until the network has room;
 * it sends those only with the sender's help, even while the sender holds at a cut.
 *
 *     flood ROUNDS
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANY 3000
#define SIZE 40

static void pour(int round)
{
    int word[SIZE];
    for (int i = 0; i < MANY; i++) {
        for (int k = 0; k < SIZE; k++)
            word[k] = round * MANY + i + k;
        OK(MPI_Bsend(word, SIZE, MPI_INT, 1, i % 7, MPI_COMM_WORLD));
    }
}

static unsigned long long drink(int round, unsigned long long sum)
{
    int word[SIZE];
    for (int i = 0; i < MANY; i++) {
        OK(MPI_Recv(word, SIZE, MPI_INT, 0, i % 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int k = 0; k < SIZE; k++)
            CHECK(word[k] == round * MANY + i + k);
        sum = mix(sum, word, sizeof(word));
    }
    return sum;
}

int main(int argc, char **argv)
{
    int rank, room;
    unsigned long long sum = 14695981039346656037ULL;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    CHECK(argc == 2);
    room = MANY * (SIZE * (int)sizeof(int) + MPI_BSEND_OVERHEAD);
    char *buffer = malloc((size_t)room), *given;
    for (int round = 0; round < atoi(argv[1]); round++) {
        if (rank == 0) {
            OK(MPI_Buffer_attach(buffer, room));
            pour(round);
        }
        usleep(20000); /* both compute */
        if (rank == 0)
            OK(MPI_Buffer_detach(&given, &room));
        else
            sum = drink(round, sum);
    }
    free(buffer);
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
