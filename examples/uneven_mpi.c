// SPDX-License-Identifier: Apache-2.0
// Work that is shared out among ranks, and anew after each restart, as the ranks' nodes then
// deserve.
//
//     mpicc -O2 uneven_mpi.c -lcryo_ckpt -o uneven_mpi
//     cr_run mpirun -n 4 ./uneven_mpi [STEPS] &
//     ompi-checkpoint --term $!
//     ompi-restart --weights fast=3,slow=1 ompi_global_snapshot_$!.ckpt
//
// A node gets whole ranks only, so its ranks may have more or less to do than its weight says; here
// each of them gets the node's share of the work, divided by the number of the node's ranks.
#include <cryo_ckpt.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { units = 4800 };

static int rank;
static int ranks;
static int first; // this rank's work: units from here
static int end;   // to here

static volatile sig_atomic_t came_back;

// Called wherever this rank was saved: it only notes that.
static void note(void *unused)
{
    (void)unused;
    came_back = 1;
}

// The part of the work that this rank has, between 0 and 1.
static double share_of(const struct cryo_placement *at, int one)
{
    if (at->weights == NULL)
        return 1.0 / ranks;
    const int node = at->node_of[one];
    double sum = 0;
    int neighbours = 0;
    for (int i = 0; i < at->nodes; i++)
        sum += (double)at->weights[i];
    for (int i = 0; i < ranks; i++)
        neighbours += at->node_of[i] == node;
    return (double)at->weights[node] / sum / neighbours;
}

static void share_out(void)
{
    struct cryo_placement at = {.size = sizeof(at)};
    ckpt_placement(&at);
    double before = 0;
    for (int i = 0; i < rank; i++)
        before += share_of(&at, i);
    first = (int)(before * units + 0.5);
    end = rank == ranks - 1 ? units : (int)((before + share_of(&at, rank)) * units + 0.5);
    if (at.restarts > 0)
        printf(
            "# restart %d: rank %d was on %s, 1 of %d nodes, and is on %s, 1 of %d: units %d-%d\n",
            at.restarts, rank, at.names_before[at.node_before[rank]], at.nodes_before,
            at.names[at.node_of[rank]], at.nodes, first, end - 1);
    fflush(stdout);
}

static unsigned long work(int unit, int step)
{
    unsigned long x = (unsigned long)unit * 0x9e3779b97f4a7c15UL + (unsigned long)step;
    for (int i = 0; i < 20; i++)
        x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9UL;
    return x;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int steps = argc > 1 ? atoi(argv[1]) : 4000;
    ckpt_on_restart(note, NULL);
    share_out();
    unsigned long result = 0;
    for (int step = 0; step < steps; step++) {
        // Ranks note a restart at different places: all share out at the same one.
        int mine = came_back;
        int anybody = 0;
        MPI_Allreduce(&mine, &anybody, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (anybody) {
            came_back = 0;
            share_out();
        }
        unsigned long sum = 0;
        unsigned long all = 0;
        for (int unit = first; unit < end; unit++)
            sum += work(unit, step);
        MPI_Allreduce(&sum, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
        result = result * 31 + all;
        const struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
    }
    printf("%d: %016lx\n", rank, result);
    MPI_Finalize();
    return 0;
}
