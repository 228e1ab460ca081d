/* SPDX-License-Identifier: Apache-2.0 */
/* Mistakes for which the library returns an error: wrong arguments of collective functions at one
 * rank, while the others do not call them, and, where handles are numbers, invalid ones. After that
 * the program continues as if nothing had happened.
 *
 *     mistakes ROUNDS
 */
#include "ring.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static MPI_Comm plain; /* has no error handler: MPICH uses MPI_COMM_WORLD's */

static int class_of(int error)
{
    int found = -1;
    OK(MPI_Error_class(error, &found));
    return found;
}

#define REFUSED(call, class) CHECK(class_of(call) == (class))

/* Run at one rank, a different one each time. */
static void mistake(int which, MPI_Comm comm)
{
    int in[4] = {1, 2, 3, 4}, out[4];
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm made = MPI_COMM_NULL;
    switch (which % 7) {
    case 0:
        REFUSED(MPI_Bcast(in, -1, MPI_INT, 0, comm), MPI_ERR_COUNT);
        break;
    case 1:
        REFUSED(MPI_Bcast(in, 1, MPI_INT, size + 3, comm), MPI_ERR_ROOT);
        break;
    case 2:
        REFUSED(MPI_Allreduce(in, out, 1, MPI_INT, MPI_OP_NULL, comm), MPI_ERR_OP);
        break;
    case 3:
        REFUSED(MPI_Bcast(in, 1, MPI_DATATYPE_NULL, 0, comm), MPI_ERR_TYPE);
        break;
    case 4:
        REFUSED(MPI_Ibcast(in, -1, MPI_INT, 0, comm, &request), MPI_ERR_COUNT);
        break;
    case 5:
        REFUSED(MPI_Ireduce(in, out, 1, MPI_INT, MPI_SUM, -7, comm, &request), MPI_ERR_ROOT);
        break;
    case 6:
        REFUSED(MPI_Comm_create(comm, MPI_GROUP_NULL, &made), MPI_ERR_GROUP);
        break;
    }
}

/* A refused send keeps the call from receiving: the message is still there afterwards. */
static void not_received(MPI_Comm comm)
{
    int in = 5, out = 0, is_there = 0, *largest_tag;
    MPI_Request request;
    MPI_Datatype rough;
    OK(MPI_Isend(&in, 1, MPI_INT, rank, 9, comm, &request));
    REFUSED(MPI_Sendrecv(&in, 1, MPI_INT, size + 3, 9, &out, 1, MPI_INT, rank, 9, comm,
                         MPI_STATUS_IGNORE),
            MPI_ERR_RANK);
    REFUSED(
        MPI_Sendrecv(&in, 1, MPI_INT, rank, -9, &out, 1, MPI_INT, rank, 9, comm, MPI_STATUS_IGNORE),
        MPI_ERR_TAG);
    REFUSED(
        MPI_Sendrecv(&in, -1, MPI_INT, rank, 9, &out, 1, MPI_INT, rank, 9, comm, MPI_STATUS_IGNORE),
        MPI_ERR_COUNT);
    OK(MPI_Type_contiguous(1, MPI_INT, &rough));
    REFUSED(
        MPI_Sendrecv(&in, 1, rough, rank, 9, &out, 1, MPI_INT, rank, 9, comm, MPI_STATUS_IGNORE),
        MPI_ERR_TYPE);
    OK(MPI_Type_free(&rough));
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *)&largest_tag, &is_there));
    CHECK(is_there);
    if (*largest_tag != INT_MAX)
        REFUSED(MPI_Sendrecv(&in, 1, MPI_INT, rank, *largest_tag + 1, &out, 1, MPI_INT, rank, 9,
                             comm, MPI_STATUS_IGNORE),
                MPI_ERR_TAG);
    OK(MPI_Iprobe(rank, 9, comm, &is_there, MPI_STATUS_IGNORE));
    CHECK(is_there);
    OK(MPI_Recv(&out, 1, MPI_INT, rank, 9, comm, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(out == 5);
}

#ifdef MPICH
/* Each rank is refused: one array must not be both send and receive buffer. */
static void aliased(MPI_Comm comm)
{
    static int counts[16], places[16], buffer[16];
    static MPI_Datatype types[16];
    MPI_Request request;
    for (int i = 0; i < size; i++) {
        counts[i] = 1;
        places[i] = i * (int)sizeof(int);
        types[i] = MPI_INT;
    }
    REFUSED(MPI_Alltoallw(buffer, counts, places, types, buffer, counts, places, types, comm),
            MPI_ERR_BUFFER);
    REFUSED(MPI_Ialltoallw(buffer, counts, places, types, buffer, counts, places, types, comm,
                           &request),
            MPI_ERR_BUFFER);
    OK(MPI_Alltoallw(MPI_IN_PLACE, counts, places, types, buffer, counts, places, types, comm));
}

static void no_handles(MPI_Comm comm)
{
    int in = 1, out[16], number = 0;
    MPI_Comm freed, copy;
    MPI_Group all;
    OK(MPI_Comm_dup(comm, &freed));
    OK(MPI_Comm_group(plain, &all));
    REFUSED(MPI_Comm_create_group(plain, all, 1, NULL), MPI_ERR_ARG);
    OK(MPI_Group_free(&all));
    copy = freed;
    OK(MPI_Comm_free(&copy));
    REFUSED(MPI_Barrier(freed), MPI_ERR_COMM);
    REFUSED(MPI_Allgather(&in, 1, MPI_INT, out, 1, MPI_INT, freed), MPI_ERR_COMM);
    REFUSED(MPI_Send(&in, 1, MPI_INT, 0, 0, freed), MPI_ERR_COMM);
    REFUSED(MPI_Comm_rank(freed, &number), MPI_ERR_COMM);
    REFUSED(MPI_Comm_free(&freed), MPI_ERR_COMM);
    REFUSED(MPI_Comm_size((MPI_Comm)12345, &number), MPI_ERR_COMM);
    REFUSED(MPI_Comm_size((MPI_Comm)MPI_INT, &number), MPI_ERR_COMM);
    REFUSED(MPI_Type_size((MPI_Datatype)MPI_COMM_WORLD, &number), MPI_ERR_TYPE);
    REFUSED(MPI_Group_size((MPI_Group)12345, &number), MPI_ERR_GROUP);
    REFUSED(MPI_Allreduce(&in, out, 1, MPI_INT, (MPI_Op)12345, comm), MPI_ERR_OP);
    MPI_Request request = (MPI_Request)12345;
    for (int i = 0; i < 2; i++) {
        REFUSED(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
        REFUSED(MPI_Test(&request, &number, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
        REFUSED(MPI_Request_free(&request), MPI_ERR_REQUEST);
    }
}
#endif

static int heard;

static void make_it_a_success(MPI_File *file, int *code, ...)
{
    (void)file;
    heard++;
    *code = MPI_SUCCESS;
}

/* A missing file. What a handler makes of the error is up to the library. */
static void no_file(void)
{
    MPI_File file;
    MPI_Errhandler handler;
    CHECK(MPI_File_open(MPI_COMM_WORLD, "/nowhere/at/all", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) !=
          MPI_SUCCESS);
    OK(MPI_File_create_errhandler(make_it_a_success, &handler));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    OK(MPI_Errhandler_free(&handler));
    const int result =
        MPI_File_open(MPI_COMM_WORLD, "/nowhere/at/all", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    printf("%d: a file that is not there: heard %d, %s\n", rank, heard,
           result == MPI_SUCCESS ? "a success" : "an error");
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
}

int main(int argc, char **argv)
{
    MPI_Comm comms[2] = {MPI_COMM_WORLD, MPI_COMM_NULL};
    void *none;
    begin_ring(&argc, &argv);
    CHECK(argc == 2);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &plain));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    for (int round = 0; round < atoi(argv[1]); round++) {
        MPI_Comm comm = comms[round / 3 % 2];
        if (round % size == rank)
            mistake(round / size, comm);
        not_received(comm);
        pass_on(round, comm);
#ifdef MPICH
        aliased(comm);
        no_handles(comm);
#endif
    }
    no_file();
    REFUSED(MPI_Alloc_mem(-1, MPI_INFO_NULL, &none), MPI_ERR_ARG);
    printf("%d: done\n", rank);
    OK(MPI_Comm_free(&comms[1]));
    OK(MPI_Comm_free(&plain));
    OK(MPI_Finalize());
    return 0;
}
