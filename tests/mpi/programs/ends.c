/* SPDX-License-Identifier: Apache-2.0 */
/* Ways a rank can end: MPI_Abort, exit() without MPI_Finalize, a crash in a callback, normally. */
#include "check.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>

static void say_goodbye(void)
{
    static const char text[] = "atexit ran\n";
    fputs(text, stdout);
    fflush(stdout);
}

static void crash(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)count, (void)type;
    raise(SIGSEGV);
}

int main(int argc, char **argv)
{
    const struct rlimit no_core = {0, 0};
    int rank, value = 1;
    CHECK(argc == 2);
    setrlimit(RLIMIT_CORE, &no_core);
    OK(MPI_Init(NULL, NULL));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (strcmp(argv[1], "abort") == 0) {
        if (rank == 1)
            MPI_Abort(MPI_COMM_WORLD, 5);
        MPI_Recv(&value, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(argv[1], "exit") == 0) {
        if (rank == 1) {
            atexit(say_goodbye);
            exit(7);
        }
        MPI_Recv(&value, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(argv[1], "crash") == 0) {
        MPI_Op op;
        OK(MPI_Op_create(crash, 1, &op));
        MPI_Reduce_local(&value, &value, 1, MPI_INT, op);
    } else {
        atexit(say_goodbye);
    }
    OK(MPI_Finalize());
    return 0;
}
