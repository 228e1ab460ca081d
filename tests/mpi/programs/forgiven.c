/* SPDX-License-Identifier: Apache-2.0 */
/* The program's error handlers turn errors into success at one rank, while the others make no
 * mistake. With MPICH the functions then return success; still nothing was sent, and no collective
 * has begun. Which handler is called is up to the library, and must be the same with and without
 * checkpoints.
 *
 *     forgiven ROUNDS
 */
#include "ring.h"

#include <unistd.h>

static int heard;
static unsigned long long sum = 14695981039346656037ULL;
static MPI_Comm lenient; /* has a handler of its own */
static MPI_Comm plain;   /* MPICH: has none; MPI_COMM_WORLD's is asked */
static MPI_Win window;
static int memory[4];

static void note(int whose, int code)
{
    int what[2] = {whose, -1};
    OK(MPI_Error_class(code, &what[1]));
    sum = mix(sum, what, sizeof(what));
    heard++;
}

static void of_world(MPI_Comm *comm, int *code, ...)
{
    note(*comm == MPI_COMM_WORLD ? 0 : 1, *code);
    *code = MPI_SUCCESS;
}

static void of_lenient(MPI_Comm *comm, int *code, ...)
{
    note(*comm == lenient ? 2 : 3, *code);
    *code = MPI_SUCCESS;
}

static void of_window(MPI_Win *win, int *code, ...)
{
    note(*win == window ? 4 : 5, *code);
    *code = MPI_SUCCESS;
}

/* Exactly one handler is called, once. */
#define FORGIVEN(call)                                                                             \
    do {                                                                                           \
        const int before = heard;                                                                  \
        (void)(call);                                                                              \
        CHECK(heard == before + 1);                                                                \
    } while (0)

static void send_wrongly(int which, MPI_Comm comm)
{
    const int next = (rank + 1) % size;
    int out = 1, in = -1;
    MPI_Request request = MPI_REQUEST_NULL;
    switch (which) {
    case 0:
        FORGIVEN(MPI_Send(&out, 1, MPI_INT, size, 7, comm));
        FORGIVEN(MPI_Send(&out, 1, MPI_INT, next, -5, comm));
        break;
    case 1:
        FORGIVEN(MPI_Ssend(&out, 1, MPI_DATATYPE_NULL, next, 7, comm));
        FORGIVEN(MPI_Rsend(&out, -1, MPI_INT, next, 7, comm));
        break;
    case 2:
#ifdef MPICH /* Open MPI sends it, though no buffer is attached */
        FORGIVEN(MPI_Bsend(&out, 1, MPI_INT, next, 7, comm));
#endif
        break;
    case 3:
        FORGIVEN(MPI_Isend(&out, 1, MPI_INT, next, -5, comm, &request));
        FORGIVEN(MPI_Issend(&out, 1, MPI_INT, size + 1, 7, comm, &request));
        break;
    case 4:
        FORGIVEN(MPI_Sendrecv(&out, 1, MPI_INT, size, 8, &in, 1, MPI_INT, next, 8, comm,
                              MPI_STATUS_IGNORE));
        FORGIVEN(MPI_Sendrecv(&out, 1, MPI_INT, next, 8, &in, 1, MPI_INT, size, 8, comm,
                              MPI_STATUS_IGNORE));
        break;
    case 5:
        FORGIVEN(MPI_Send_init(&out, 1, MPI_INT, size, 7, comm, &request));
        FORGIVEN(MPI_Recv_init(&in, 1, MPI_INT, next, -5, comm, &request));
        break;
    }
}

static void receive_wrongly(int which, MPI_Comm comm)
{
    int in = -1, flag = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message = MPI_MESSAGE_NULL;
    switch (which) {
    case 0:
        FORGIVEN(MPI_Recv(&in, 1, MPI_INT, size, 7, comm, MPI_STATUS_IGNORE));
        break;
    case 1:
        FORGIVEN(MPI_Irecv(&in, 1, MPI_INT, rank, -5, comm, &request));
        break;
    case 2:
        FORGIVEN(MPI_Probe(size, 7, comm, MPI_STATUS_IGNORE));
        FORGIVEN(MPI_Iprobe(size, 7, comm, &flag, MPI_STATUS_IGNORE));
        break;
    case 3:
        FORGIVEN(MPI_Improbe(size, 7, comm, &flag, &message, MPI_STATUS_IGNORE));
        FORGIVEN(MPI_Mprobe(size, 7, comm, &message, MPI_STATUS_IGNORE));
        break;
    case 4:
        FORGIVEN(MPI_Bcast(&in, -1, MPI_INT, 0, comm));
        FORGIVEN(MPI_Allreduce(&in, &flag, 1, MPI_INT, MPI_OP_NULL, comm));
        break;
    case 5:
        FORGIVEN(MPI_Ibcast(&in, 1, MPI_INT, size + 3, comm, &request));
        break;
    }
}

/* Messages to itself that are longer than their receive buffers. */
static void cut_off(int which, MPI_Comm comm)
{
    int out[4] = {1, 2, 3, 4}, in[2] = {0, 0}, index = -1, count = 0, flag = 0;
    MPI_Request sent, request;
    MPI_Message message;
    OK(MPI_Isend(out, 4, MPI_INT, rank, 9, comm, &sent));
    if (which > 0 && which < 5)
        OK(MPI_Irecv(in, 2, MPI_INT, rank, 9, comm, &request));
    if (rank % 2 == 1)
        usleep(300);
    switch (which) {
    case 0:
        FORGIVEN(MPI_Recv(in, 2, MPI_INT, rank, 9, comm, MPI_STATUS_IGNORE));
        break;
    case 1:
        FORGIVEN(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case 2:
        FORGIVEN(MPI_Waitall(1, &request, MPI_STATUSES_IGNORE));
        break;
    case 3:
        FORGIVEN(MPI_Waitany(1, &request, &index, MPI_STATUS_IGNORE));
        break;
    case 4:
        FORGIVEN(MPI_Waitsome(1, &request, &count, &index, MPI_STATUSES_IGNORE));
        break;
    case 5:
        OK(MPI_Recv_init(in, 2, MPI_INT, rank, 9, comm, &request));
        OK(MPI_Start(&request));
        FORGIVEN(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (request != MPI_REQUEST_NULL) /* Open MPI has freed it */
            OK(MPI_Request_free(&request));
        break;
    case 6:
        while (flag == 0)
            OK(MPI_Improbe(rank, 9, comm, &flag, &message, MPI_STATUS_IGNORE));
        FORGIVEN(MPI_Mrecv(in, 2, MPI_INT, &message, MPI_STATUS_IGNORE));
        break;
    }
    OK(MPI_Wait(&sent, MPI_STATUS_IGNORE));
}

static void misuse_window(int which)
{
    const int next = (rank + 1) % size;
    int out = 1;
    switch (which) {
    case 0:
        FORGIVEN(MPI_Win_lock(-77, next, 0, window));
        break;
    case 1:
        FORGIVEN(MPI_Win_unlock(next, window));
        break;
    case 2:
        FORGIVEN(MPI_Put(&out, -1, MPI_INT, next, 0, 1, MPI_INT, window));
        break;
    case 3:
        FORGIVEN(MPI_Win_complete(window));
        break;
    }
}

/* Run at one rank, a different one each time. */
static void mistake(int which, MPI_Comm comm)
{
    which %= 23;
    if (which < 6)
        send_wrongly(which, comm);
    else if (which < 12)
        receive_wrongly(which - 6, comm);
    else if (which < 19)
        cut_off(which - 12, comm);
    else
        misuse_window(which - 19);
}

static void all_go_on(int round, MPI_Comm comm)
{
    const int mine = round + rank;
    pass_on(round, comm);
    if (round % 16 == 0) {
        OK(MPI_Win_fence(0, window));
        OK(MPI_Put(&mine, 1, MPI_INT, right, 0, 1, MPI_INT, window));
        OK(MPI_Win_fence(0, window));
        CHECK(memory[0] == round + left);
    }
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    MPI_Group group;
    begin_ring(&argc, &argv);
    CHECK(argc == 2);
    OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 3, &plain));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &lenient));
    OK(MPI_Comm_create_errhandler(of_lenient, &handler));
    OK(MPI_Comm_set_errhandler(lenient, handler));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Comm_create_errhandler(of_world, &handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
#ifndef MPICH
    OK(MPI_Comm_set_errhandler(plain, handler));
#endif
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Win_create(memory, sizeof(memory), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    OK(MPI_Win_create_errhandler(of_window, &handler));
    OK(MPI_Win_set_errhandler(window, handler));
    OK(MPI_Errhandler_free(&handler));

    const MPI_Comm comms[] = {MPI_COMM_WORLD, lenient, plain};
    for (int round = 0; round < atoi(argv[1]); round++) {
        MPI_Comm comm = comms[round / 5 % 3];
        if (round % size == rank)
            mistake(round / size, comm);
        all_go_on(round, comm);
    }
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Win_free(&window));
    OK(MPI_Comm_free(&lenient));
    OK(MPI_Comm_free(&plain));
    OK(MPI_Finalize());
    return 0;
}
