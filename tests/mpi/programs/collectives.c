/* SPDX-License-Identifier: Apache-2.0 */
/* All collectives: blocking and non-blocking, v and w, neighbours, in place, user operations.
 */
#include "check.h"

#include <stdint.h>
#include <string.h>

#define MOST 16

static int rank, size;
static unsigned long long sum = 14695981039346656037ULL;

static void add(const void *data, size_t bytes)
{
    sum = mix(sum, data, bytes);
}

static void wait_for(MPI_Request *request)
{
    OK(MPI_Wait(request, MPI_STATUS_IGNORE));
    CHECK(*request == MPI_REQUEST_NULL);
}

/* A datatype for an argument that is significant at this root only. MPICH's are numbers. */
static MPI_Datatype at_root(int root, MPI_Datatype type)
{
#ifdef OPEN_MPI
    return rank == root ? type : (MPI_Datatype)(uintptr_t)0x10;
#else
    return rank == root ? type : MPI_DATATYPE_NULL;
#endif
}

/* out[i] = 2 * in[i] + inout[i], so not commutative; checks that it gets the right type. */
static MPI_Datatype expected_type;
static void twice_and_once(void *in, void *inout, int *count, MPI_Datatype *type)
{
    if (*type != expected_type)
        abort();
    for (int i = 0; i < *count; i++)
        ((long *)inout)[i] += 2 * ((long *)in)[i];
}

static void plain(MPI_Comm comm)
{
    int in[MOST * 4], out[MOST * 4], counts[MOST], places[MOST];
    for (int i = 0; i < size; i++) {
        counts[i] = i % 3 + 1;
        places[i] = 4 * i;
    }
    for (int i = 0; i < MOST * 4; i++)
        in[i] = rank * 100 + i;
    memset(out, 0, sizeof(out));
    OK(MPI_Barrier(comm));
    OK(MPI_Bcast(in, 4, MPI_INT, size - 1, comm));
    OK(MPI_Gather(in, 4, MPI_INT, out, 4, at_root(0, MPI_INT), 0, comm));
    add(out, sizeof(out));
    OK(MPI_Gatherv(in, counts[rank], MPI_INT, out, counts, places, at_root(0, MPI_INT), 0, comm));
    add(out, sizeof(out));
    OK(MPI_Scatter(out, 4, at_root(0, MPI_INT), in, 4, MPI_INT, 0, comm));
    OK(MPI_Scatterv(out, counts, places, at_root(0, MPI_INT), in, counts[rank], MPI_INT, 0, comm));
    add(in, sizeof(in));
    OK(MPI_Allgather(in, 4, MPI_INT, out, 4, MPI_INT, comm));
    OK(MPI_Allgatherv(in, counts[rank], MPI_INT, out, counts, places, MPI_INT, comm));
    add(out, sizeof(out));
    OK(MPI_Alltoall(in, 4, MPI_INT, out, 4, MPI_INT, comm));
    int from[MOST];
    for (int i = 0; i < size; i++)
        from[i] = counts[rank];
    OK(MPI_Alltoallv(in, counts, places, MPI_INT, out, from, places, MPI_INT, comm));
    add(out, sizeof(out));
    OK(MPI_Reduce(in, out, 8, MPI_INT, MPI_MAX, 0, comm));
    OK(MPI_Allreduce(in, out, 8, MPI_INT, MPI_SUM, comm));
    add(out, sizeof(out));
    OK(MPI_Allreduce(MPI_IN_PLACE, in, 8, MPI_INT, MPI_BXOR, comm));
    OK(MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, comm));
    OK(MPI_Reduce_scatter_block(out, in, 2, MPI_INT, MPI_SUM, comm));
    OK(MPI_Scan(in, out, 4, MPI_INT, MPI_SUM, comm));
    add(out, sizeof(out));
    memset(out, 0, sizeof(out)); /* what MPI_Exscan leaves at the first rank is undefined */
    OK(MPI_Exscan(in, out, 4, MPI_INT, MPI_SUM, comm));
    if (rank > 0)
        add(out, sizeof(out));
    struct {
        double value;
        int where;
    } mine = {rank % 3 * 1.5, rank}, best;
    OK(MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, comm));
    add(&best.where, sizeof(int));
}

static void types_each_its_own(MPI_Comm comm)
{
    MPI_Datatype types[MOST];
    int in[MOST][4], out[MOST][4], ones[MOST], places[MOST];
    for (int i = 0; i < size; i++) {
        OK(MPI_Type_vector(2, 1, 1 + (i + rank) % 2, MPI_INT, &types[i]));
        OK(MPI_Type_commit(&types[i]));
        ones[i] = 1;
        places[i] = i * (int)sizeof(in[0]);
        for (int j = 0; j < 4; j++) {
            in[i][j] = rank * 1000 + i * 10 + j;
            out[i][j] = 0;
        }
    }
    OK(MPI_Alltoallw(in, ones, places, types, out, ones, places, types, comm));
    add(out, sizeof(out[0]) * (size_t)size);
    MPI_Request request;
    memset(out, 0, sizeof(out));
    OK(MPI_Ialltoallw(in, ones, places, types, out, ones, places, types, comm, &request));
    wait_for(&request);
    add(out, sizeof(out[0]) * (size_t)size);
    OK(MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, out, ones, places, types, comm));
    add(out, sizeof(out[0]) * (size_t)size);
    for (int i = 0; i < size; i++)
        OK(MPI_Type_free(&types[i]));
}

static void operations(MPI_Comm comm)
{
    long in[5], out[5];
    MPI_Op op;
    for (int i = 0; i < 5; i++)
        in[i] = rank + i;
    expected_type = MPI_LONG;
    OK(MPI_Op_create(twice_and_once, 0, &op));
    int commutes = 1;
    OK(MPI_Op_commutative(op, &commutes));
    CHECK(!commutes);
    OK(MPI_Allreduce(in, out, 5, MPI_LONG, op, comm));
    add(out, sizeof(out));
    OK(MPI_Reduce_local(in, out, 5, MPI_LONG, op));
    add(out, sizeof(out));
    OK(MPI_Type_contiguous(1, MPI_LONG, &expected_type));
    OK(MPI_Type_commit(&expected_type));
    OK(MPI_Scan(in, out, 5, expected_type, op, comm));
    add(out, sizeof(out));
    MPI_Request request;
    OK(MPI_Iallreduce(in, out, 5, expected_type, op, comm, &request));
    wait_for(&request);
    add(out, sizeof(out));
    OK(MPI_Type_free(&expected_type));
    OK(MPI_Op_free(&op));
    CHECK(op == MPI_OP_NULL);
}

static void non_blocking(MPI_Comm comm)
{
    int in[MOST * 4], out[10][MOST * 4], counts[MOST], places[MOST];
    MPI_Request requests[10];
    memset(out, 0, sizeof(out));
    for (int i = 0; i < size; i++) {
        counts[i] = 2;
        places[i] = 3 * i;
    }
    for (int i = 0; i < MOST * 4; i++)
        in[i] = rank + i;
    memcpy(out[0], in, sizeof(in));
    OK(MPI_Ibcast(out[0], 4, MPI_INT, 0, comm, &requests[0]));
    OK(MPI_Iallgather(in, 4, MPI_INT, out[1], 4, MPI_INT, comm, &requests[1]));
    OK(MPI_Ialltoall(in, 2, MPI_INT, out[2], 2, MPI_INT, comm, &requests[2]));
    OK(MPI_Iallreduce(in, out[3], 6, MPI_INT, MPI_SUM, comm, &requests[3]));
    OK(MPI_Igather(in, 2, MPI_INT, out[4], 2, at_root(0, MPI_INT), 0, comm, &requests[4]));
    OK(MPI_Iscan(in, out[5], 3, MPI_INT, MPI_SUM, comm, &requests[5]));
    OK(MPI_Iallgatherv(in, 2, MPI_INT, out[6], counts, places, MPI_INT, comm, &requests[6]));
    OK(MPI_Ireduce_scatter_block(in, out[7], 2, MPI_INT, MPI_MIN, comm, &requests[7]));
    OK(MPI_Ialltoallv(in, counts, places, MPI_INT, out[8], counts, places, MPI_INT, comm,
                      &requests[8]));
    OK(MPI_Ibarrier(comm, &requests[9]));
    OK(MPI_Waitall(10, requests, MPI_STATUSES_IGNORE));
    add(out, sizeof(out));
}

static void neighbours(void)
{
    int dims[2] = {0, 0}, periods[2] = {1, 1}, in[8], out[16];
    MPI_Comm grid, graph;
    OK(MPI_Dims_create(size, 2, dims));
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid));
    for (int i = 0; i < 8; i++)
        in[i] = rank * 10 + i;
    OK(MPI_Neighbor_allgather(in, 2, MPI_INT, out, 2, MPI_INT, grid));
    add(out, 8 * sizeof(int));
    OK(MPI_Neighbor_alltoall(in, 2, MPI_INT, out, 2, MPI_INT, grid));
    add(out, 8 * sizeof(int));
    MPI_Datatype types[4] = {MPI_INT, MPI_INT, MPI_INT, MPI_INT};
    int twos[4] = {2, 2, 2, 2};
    MPI_Aint places[4] = {0, 8, 16, 24};
    OK(MPI_Neighbor_alltoallw(in, twos, places, types, out, twos, places, types, grid));
    add(out, 8 * sizeof(int));
    MPI_Request request;
    OK(MPI_Ineighbor_alltoallw(in, twos, places, types, out, twos, places, types, grid, &request));
    wait_for(&request);
    add(out, 8 * sizeof(int));
    OK(MPI_Comm_free(&grid));

    const int weight = 1;
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &from, &weight, 1, &to, &weight,
                                      MPI_INFO_NULL, 0, &graph));
    OK(MPI_Neighbor_alltoallw(in, twos, places, types, out, twos, places, types, graph));
    CHECK(out[0] == from * 10);
    OK(MPI_Ineighbor_allgather(in, 3, MPI_INT, out, 3, MPI_INT, graph, &request));
    wait_for(&request);
    add(out, 3 * sizeof(int));
    OK(MPI_Comm_free(&graph));
}

static void between_groups(void)
{
    MPI_Comm half, both, merged;
    const int is_odd = rank % 2;
    OK(MPI_Comm_split(MPI_COMM_WORLD, is_odd, rank, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !is_odd, 5, &both));
    int others, mine = rank + 1, got = 0, in[MOST] = {0};
    OK(MPI_Comm_remote_size(both, &others));
    OK(MPI_Allreduce(&mine, &got, 1, MPI_INT, MPI_SUM, both));
    add(&got, sizeof(got));
    OK(MPI_Allgather(&mine, 1, MPI_INT, in, 1, MPI_INT, both));
    add(in, sizeof(in));
    MPI_Datatype types[MOST];
    int ones[MOST], places[MOST], out[MOST];
    for (int i = 0; i < others; i++) {
        types[i] = MPI_INT;
        ones[i] = 1;
        places[i] = 4 * i;
        out[i] = rank * 10 + i;
    }
    OK(MPI_Alltoallw(out, ones, places, types, in, ones, places, types, both));
    add(in, sizeof(in));
    OK(MPI_Intercomm_merge(both, is_odd, &merged));
    OK(MPI_Barrier(merged));
    OK(MPI_Comm_free(&merged));
    OK(MPI_Comm_free(&both));
    OK(MPI_Comm_free(&half));
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(size >= 2 && size <= MOST);
    MPI_Comm copy;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    for (int round = 0; round < 3; round++) {
        plain(round % 2 == 0 ? MPI_COMM_WORLD : copy);
        types_each_its_own(copy);
        operations(copy);
        non_blocking(copy);
        neighbours();
        between_groups();
    }
    OK(MPI_Comm_free(&copy));
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
