/* SPDX-License-Identifier: Apache-2.0 */
/* A program that is nearly always inside MPI_Alloc_mem or MPI_Free_mem, with memory in so many
 * pieces that each call searches long; a signal handler that interrupts it there needs memory too.
 *
 *     lent ROUNDS
 */
#include "check.h"

#include <string.h>

enum { PIECES = 8000, TURNS = 200 };

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    static char *pieces[PIECES];
    int rank, ranks;
    unsigned long long sum = 14695981039346656037ULL;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    /* Objects that a restart has to recreate. */
    MPI_Comm copy;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_set_name(copy, "a copy"));
    for (int i = 0; i < PIECES; i++)
        OK(MPI_Alloc_mem(1, MPI_INFO_NULL, &pieces[i]));
    for (int i = 0; i < PIECES; i += 2)
        OK(MPI_Free_mem(pieces[i]));
    for (int i = 0; i < rounds; i++) {
        const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
        int got = -1, total;
        for (int turn = 0; turn < TURNS; turn++) {
            char *lent;
            OK(MPI_Alloc_mem(100000, MPI_INFO_NULL, &lent));
            memset(lent, turn, 10);
            CHECK(lent[9] == (char)turn);
            OK(MPI_Free_mem(lent));
        }
#if MPI_VERSION >= 4
        MPI_Request request;
        OK(MPI_Isendrecv(&i, 1, MPI_INT, right, 0, &got, 1, MPI_INT, left, 0, MPI_COMM_WORLD,
                         &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
#else
        OK(MPI_Sendrecv(&i, 1, MPI_INT, right, 0, &got, 1, MPI_INT, left, 0, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
#endif
        CHECK(got == i);
        OK(MPI_Allreduce(&got, &total, 1, MPI_INT, MPI_SUM, copy));
        sum = mix(sum, &total, sizeof total);
    }
    for (int i = 1; i < PIECES; i += 2)
        OK(MPI_Free_mem(pieces[i]));
    OK(MPI_Comm_free(&copy));
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
