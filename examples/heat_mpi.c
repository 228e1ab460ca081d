// SPDX-License-Identifier: Apache-2.0
// A ring of ranks in which heat spreads: neighbours exchange their borders in every step, with an
// occasional global sum. It knows nothing of Cryo.
//
//     mpicc -O2 heat_mpi.c -o heat_mpi -lm
//     mpirun -n 4 ./heat_mpi [STEPS]
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { width = 2000, lines = 20 };

static double cells[2][width + 2];

static void exchange(double *row, int left, int right)
{
    MPI_Request pending[4];
    MPI_Irecv(&row[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &pending[0]);
    MPI_Irecv(&row[width + 1], 1, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &pending[1]);
    MPI_Isend(&row[width], 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &pending[2]);
    MPI_Isend(&row[1], 1, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &pending[3]);
    MPI_Waitall(4, pending, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    int ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int steps = argc > 1 ? atoi(argv[1]) : 400000;
    const int every = steps / lines > 0 ? steps / lines : 1;
    for (int i = 1; i <= width; i++)
        cells[0][i] = sin((rank * width + i) * 0.01);
    for (int step = 0; step < steps; step++) {
        double *now = cells[step % 2];
        double *next = cells[(step + 1) % 2];
        exchange(now, (rank + ranks - 1) % ranks, (rank + 1) % ranks);
        for (int i = 1; i <= width; i++)
            next[i] = now[i] + 0.25 * (now[i - 1] - 2 * now[i] + now[i + 1]);
        if (step % every != every - 1)
            continue;
        double energy = 0;
        double sum = 0;
        for (int i = 1; i <= width; i++)
            energy += next[i] * next[i];
        MPI_Reduce(&energy, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("step %d: energy %.17g\n", step + 1, sum);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
