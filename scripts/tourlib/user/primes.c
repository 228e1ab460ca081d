// SPDX-License-Identifier: Apache-2.0
// Counts primes, all ranks in turns of one block of numbers each, and adds up after each turn. It
// knows nothing of Cryo, and its result is in every table.
//
//     mpirun -n 3 ./primes LIMIT
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { block = 1000, turns_of_a_line = 20 };

static int is_prime(long number)
{
    if (number < 2)
        return 0;
    for (long divisor = 2; divisor * divisor <= number; divisor++) {
        if (number % divisor == 0)
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    int ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const long limit = argc > 1 ? atol(argv[1]) : 1000000;
    long count = 0;
    long begin = 0;
    for (int turn = 1; begin < limit; turn++) {
        const long first = begin + (long)rank * block;
        long found = 0;
        for (long number = first; number < first + block && number < limit; number++)
            found += is_prime(number);
        long sum = 0;
        MPI_Allreduce(&found, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        count += sum;
        begin += (long)ranks * block;
        if (rank == 0 && (turn % turns_of_a_line == 0 || begin >= limit)) {
            printf("below %ld: %ld primes\n", begin < limit ? begin : limit, count);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
