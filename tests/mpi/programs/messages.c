/* SPDX-License-Identifier: Apache-2.0 */
/* A ring with every kind of point-to-point traffic. Prints a checksum of what each rank received.
 */
#include "ring.h"

#include <string.h>

#define MANY 40
#define LARGE 300000

static unsigned long long sum = 14695981039346656037ULL;

static void add(const void *data, size_t bytes)
{
    sum = mix(sum, data, bytes);
}

static void blocking_modes(void)
{
    int token = rank, got = -1;
    MPI_Status status;
    static char buffer[1 << 16];
    OK(MPI_Buffer_attach(buffer, sizeof(buffer)));
    OK(MPI_Bsend(&token, 1, MPI_INT, right, 1, MPI_COMM_WORLD));
    OK(MPI_Recv(&got, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &status));
    CHECK(got == left && status.MPI_SOURCE == left && status.MPI_TAG == 1);
    void *back;
    int bytes;
    OK(MPI_Buffer_detach(&back, &bytes));
    CHECK(back == buffer && bytes == (int)sizeof(buffer));

    OK(MPI_Sendrecv(&token, 1, MPI_INT, right, 2, &got, 1, MPI_INT, left, 2, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    add(&got, sizeof(got));
    OK(MPI_Sendrecv_replace(&token, 1, MPI_INT, left, 3, right, 3, MPI_COMM_WORLD, &status));
    CHECK(token == right);

    if (rank % 2 == 0) {
        OK(MPI_Ssend(&token, 1, MPI_INT, right, 4, MPI_COMM_WORLD));
        OK(MPI_Recv(&got, 1, MPI_INT, left, 4, MPI_COMM_WORLD, &status));
    } else {
        OK(MPI_Recv(&got, 1, MPI_INT, left, 4, MPI_COMM_WORLD, &status));
        OK(MPI_Ssend(&token, 1, MPI_INT, right, 4, MPI_COMM_WORLD));
    }
    add(&got, sizeof(got));

    MPI_Request request;
    OK(MPI_Irecv(&got, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &request));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Rsend(&token, 1, MPI_INT, right, 5, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, &status));
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    add(&got, sizeof(got));
    OK(MPI_Send(&token, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD));
}

/* MPICH accepts the null datatype for zero elements. */
static void nothing(void)
{
#ifdef MPICH_VERSION
    MPI_Request requests[2];
    MPI_Status status;
    int count = -1;
    OK(MPI_Irecv(NULL, 0, MPI_DATATYPE_NULL, left, 6, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(NULL, 0, MPI_DATATYPE_NULL, right, 6, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Send(NULL, 0, MPI_DATATYPE_NULL, right, 7, MPI_COMM_WORLD));
    OK(MPI_Recv(NULL, 0, MPI_DATATYPE_NULL, left, 7, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK(count == 0 && status.MPI_TAG == 7);
#endif
}

static void nonblocking(void)
{
    MPI_Request requests[2 * MANY];
    MPI_Status statuses[2 * MANY];
    int in[MANY], out[MANY], indices[2 * MANY];
    for (int i = 0; i < MANY; i++) {
        in[i] = -1;
        out[i] = rank * 1000 + i;
        OK(MPI_Irecv(&in[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &requests[i]));
    }
    for (int i = 0; i < MANY; i++) {
        MPI_Request *request = &requests[MANY + i];
        const int tag = MANY - 1 - i;
        if (i % 3 == 0)
            OK(MPI_Isend(&out[tag], 1, MPI_INT, right, tag, MPI_COMM_WORLD, request));
        else if (i % 3 == 1)
            OK(MPI_Issend(&out[tag], 1, MPI_INT, right, tag, MPI_COMM_WORLD, request));
        else
            OK(MPI_Irsend(&out[tag], 1, MPI_INT, right, tag, MPI_COMM_WORLD, request));
    }
    int index, flag, count, done = 0;
    OK(MPI_Waitany(2 * MANY, requests, &index, statuses));
    CHECK(index >= 0 && requests[index] == MPI_REQUEST_NULL);
    done++;
    OK(MPI_Waitsome(2 * MANY, requests, &count, indices, statuses));
    CHECK(count > 0);
    done += count;
    OK(MPI_Testany(2 * MANY, requests, &index, &flag, statuses));
    if (flag && index != MPI_UNDEFINED)
        done++;
    OK(MPI_Testsome(2 * MANY, requests, &count, indices, statuses));
    if (count != MPI_UNDEFINED)
        done += count;
    int left_over = 0;
    for (int i = 0; i < 2 * MANY; i++)
        left_over += requests[i] != MPI_REQUEST_NULL;
    CHECK(done + left_over == 2 * MANY);
    OK(MPI_Waitall(2 * MANY, requests, statuses));
    OK(MPI_Testall(2 * MANY, requests, &flag, MPI_STATUSES_IGNORE));
    CHECK(flag);
    for (int i = 0; i < MANY; i++)
        CHECK(in[i] == left * 1000 + i);
    add(in, sizeof(in));
}

static void persistent(void)
{
    MPI_Request requests[2];
    int in, out;
    OK(MPI_Recv_init(&in, 1, MPI_INT, left, 7, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Send_init(&out, 1, MPI_INT, right, 7, MPI_COMM_WORLD, &requests[1]));
    for (int i = 0; i < 5; i++) {
        MPI_Request before[2] = {requests[0], requests[1]};
        out = rank + 10 * i;
        OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK(requests[0] == before[0] && requests[1] == before[1]);
        CHECK(in == left + 10 * i);
        add(&in, sizeof(in));
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    CHECK(requests[0] == MPI_REQUEST_NULL);
}

static void probes(void)
{
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    int values[3] = {rank, rank + 1, rank + 2}, got[3], count, flag = 0;
    OK(MPI_Isend(values, 3, MPI_INT, right, 8, MPI_COMM_WORLD, &request));
    OK(MPI_Probe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == 3);
    OK(MPI_Iprobe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status));
    OK(MPI_Mprobe(left, 8, MPI_COMM_WORLD, &message, &status));
    CHECK(message != MPI_MESSAGE_NULL);
    OK(MPI_Mrecv(got, 3, MPI_INT, &message, &status));
    CHECK(message == MPI_MESSAGE_NULL);
    add(got, sizeof(got));
    OK(MPI_Wait(&request, &status));

    OK(MPI_Isend(values, 2, MPI_INT, left, 9, MPI_COMM_WORLD, &request));
    for (flag = 0; !flag;)
        OK(MPI_Improbe(right, 9, MPI_COMM_WORLD, &flag, &message, &status));
    MPI_Request receive;
    OK(MPI_Imrecv(got, 2, MPI_INT, &message, &receive));
    OK(MPI_Wait(&receive, &status));
    add(got, 2 * sizeof(int));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC);
    OK(MPI_Mrecv(got, 1, MPI_INT, &message, &status));
}

static void cancel_and_truncate(void)
{
    MPI_Request request;
    MPI_Status status;
    int never[2], flag, class;
    OK(MPI_Irecv(never, 2, MPI_INT, left, 99, MPI_COMM_WORLD, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag);

    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Isend((int[]){1, 2, 3, 4}, 4, MPI_INT, right, 10, MPI_COMM_WORLD, &request));
    const int error = MPI_Recv(never, 2, MPI_INT, left, 10, MPI_COMM_WORLD, &status);
    OK(MPI_Error_class(error, &class));
    CHECK(class == MPI_ERR_TRUNCATE);
    OK(MPI_Wait(&request, &status));
    CHECK(MPI_Send(never, -1, MPI_INT, right, 10, MPI_COMM_WORLD) != MPI_SUCCESS);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

static void large(void)
{
    static double in[LARGE], out[LARGE];
    MPI_Request requests[2];
    for (int i = 0; i < LARGE; i++)
        out[i] = rank + i * 0.5;
    OK(MPI_Irecv(in, LARGE, MPI_DOUBLE, left, 11, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(out, LARGE, MPI_DOUBLE, right, 11, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    add(in, sizeof(in));
}

static void derived_types(void)
{
    struct {
        int a;
        char gap[12];
        double b[2];
    } in[4], out[4];
    memset(in, 0, sizeof(in));
    memset(out, 0, sizeof(out));
    for (int i = 0; i < 4; i++) {
        out[i].a = rank + i;
        out[i].b[0] = rank * 1.5 + i;
        out[i].b[1] = -i;
    }
    MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE}, plain, spaced, column;
    int lengths[2] = {1, 2};
    MPI_Aint places[2] = {0, 16};
    OK(MPI_Type_create_struct(2, lengths, places, parts, &plain));
    OK(MPI_Type_create_resized(plain, 0, sizeof(in[0]), &spaced));
    OK(MPI_Type_commit(&spaced));
    OK(MPI_Sendrecv(out, 4, spaced, right, 12, in, 4, spaced, left, 12, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    add(in, sizeof(in));

    double matrix[6][5];
    for (int i = 0; i < 30; i++)
        matrix[i / 5][i % 5] = rank * 100 + i;
    OK(MPI_Type_vector(6, 1, 5, MPI_DOUBLE, &column));
    OK(MPI_Type_commit(&column));
    OK(MPI_Sendrecv(&matrix[0][1], 1, column, right, 13, &matrix[0][3], 1, column, left, 13,
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    add(matrix, sizeof(matrix));

    int combiner, integers, addresses, types;
    OK(MPI_Type_get_envelope(plain, &integers, &addresses, &types, &combiner));
    CHECK(combiner == MPI_COMBINER_STRUCT && types == 2);
    int numbers[8];
    MPI_Aint offsets[8];
    MPI_Datatype inner[8];
    OK(MPI_Type_get_contents(plain, integers, addresses, types, numbers, offsets, inner));
    CHECK(inner[0] == MPI_INT && inner[1] == MPI_DOUBLE);
    OK(MPI_Type_free(&plain));
    OK(MPI_Type_free(&spaced));
    OK(MPI_Type_free(&column));
    CHECK(column == MPI_DATATYPE_NULL);

    /* MPI_BOTTOM: absolute addresses. */
    int first = rank * 7, second = rank * 11, got[2] = {0, 0};
    MPI_Aint absolute[2];
    MPI_Datatype anywhere;
    OK(MPI_Get_address(&first, &absolute[0]));
    OK(MPI_Get_address(&second, &absolute[1]));
    OK(MPI_Type_create_hindexed(2, (int[]){1, 1}, absolute, MPI_INT, &anywhere));
    OK(MPI_Type_commit(&anywhere));
    OK(MPI_Sendrecv(MPI_BOTTOM, 1, anywhere, right, 14, got, 2, MPI_INT, left, 14, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    CHECK(got[0] == left * 7 && got[1] == left * 11);
    OK(MPI_Type_free(&anywhere));

    char packed[64];
    int position = 0;
    OK(MPI_Pack(&first, 1, MPI_INT, packed, sizeof(packed), &position, MPI_COMM_WORLD));
    OK(MPI_Pack(&second, 1, MPI_INT, packed, sizeof(packed), &position, MPI_COMM_WORLD));
    add(packed, (size_t)position);
}

static void any_source(void)
{
    if (rank != 0) {
        for (int i = 0; i < 20; i++)
            OK(MPI_Send(&i, 1, MPI_INT, 0, rank, MPI_COMM_WORLD));
        return;
    }
    int *next = calloc((size_t)size, sizeof(int)), value;
    MPI_Status status;
    for (int i = 0; i < 20 * (size - 1); i++) {
        OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        CHECK(status.MPI_TAG == status.MPI_SOURCE && value == next[status.MPI_SOURCE]++);
    }
    free(next);
}

int main(int argc, char **argv)
{
    begin_ring(&argc, &argv);
    for (int round = 0; round < 3; round++) {
        blocking_modes();
        nothing();
        nonblocking();
        persistent();
        probes();
        cancel_and_truncate();
        large();
        derived_types();
        any_source();
        OK(MPI_Barrier(MPI_COMM_WORLD)); /* MPI_ANY_TAG also matches the next round's messages */
    }
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
