/* SPDX-License-Identifier: Apache-2.0 */
/* Each round uses some of: datatypes with gaps, communicators of all shapes, messages between two
 * groups, persistent requests, and a file with a view and a shared position. Much is in flight
 * while the program sleeps. Runs as many rounds as the first argument says. */
#include "ring.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 12, COLUMNS = 7, BLOCK = 3 };

struct item {
    char tag;
    double value;
    short counts[3];
};

static unsigned long long sum = 14695981039346656037ULL;
static int matrix[ROWS][COLUMNS], received[ROWS][COLUMNS], sent_number, got_number[2];
static MPI_Datatype column, item, ragged;
static MPI_Comm half, grid, row, ring, star, bridge;
static MPI_Request persistent[4];
static MPI_File file;
static char name[4096];

static void make_types(void)
{
    const int lengths[] = {1, 1, 3};
    const MPI_Aint places[] = {offsetof(struct item, tag), offsetof(struct item, value),
                               offsetof(struct item, counts)};
    const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT};
    const int ends[] = {2, 0, 1}, starts[] = {0, 4, 9};
    MPI_Datatype plain;
    OK(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &plain));
    OK(MPI_Type_create_resized(plain, 0, sizeof(int), &column));
    OK(MPI_Type_commit(&column));
    OK(MPI_Type_free(&plain));
    OK(MPI_Type_create_struct(3, lengths, places, types, &plain));
    OK(MPI_Type_create_resized(plain, 0, sizeof(struct item), &item));
    OK(MPI_Type_commit(&item));
    OK(MPI_Type_free(&plain));
    OK(MPI_Type_indexed(3, ends, starts, MPI_INT, &ragged));
    OK(MPI_Type_commit(&ragged));
}

static void make_communicators(void)
{
    const int dims[] = {1, size}, periods[] = {0, 1}, remain[] = {0, 1}, weight = 3 + rank;
    int index[16], edges[32];
    for (int i = 0; i < size; i++) {
        edges[2 * i] = (i + 1) % size;
        edges[2 * i + 1] = (i + size - 1) % size;
        index[i] = 2 * i + 2;
    }
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0, -rank, &half));
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid));
    OK(MPI_Cart_sub(grid, remain, &row));
    OK(MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &ring));
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, &weight, 1, &right, &weight,
                                      MPI_INFO_NULL, 0, &star));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? size - 1 : 0, 7, &bridge));
}

static void make_file(void)
{
    MPI_Datatype stripes;
    snprintf(name, sizeof(name), "%s/shared", getenv("CRYO_SCRATCH"));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_set_size(file, 0));
    OK(MPI_Type_vector(1000, BLOCK, BLOCK * size, MPI_INT, &stripes));
    OK(MPI_Type_commit(&stripes));
    OK(MPI_File_set_view(file, (MPI_Offset)sizeof(int) * BLOCK * rank, MPI_INT, stripes, "native",
                         MPI_INFO_NULL));
    OK(MPI_Type_free(&stripes));
}

static void types(int round)
{
    struct item out[2], in[2];
    MPI_Request requests[3];
    memset(out, 0, sizeof(out));
    memset(in, 0, sizeof(in));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        matrix[i / COLUMNS][i % COLUMNS] = rank * 1000 + round + i;
    for (int i = 0; i < 2; i++)
        out[i] = (struct item){(char)('a' + round % 20), rank + 0.5 * i, {1, 2, (short)round}};
    /* Two columns that arrive as columns in another place; the rest stays unchanged. */
    OK(MPI_Irecv(&received[0][3], 2, column, left, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(&matrix[0][1], 2, column, right, 1, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Send(out, 2, item, right, 2, MPI_COMM_WORLD));
    OK(MPI_Isend(&matrix[1][0], 1, ragged, left, 3, MPI_COMM_WORLD, &requests[2]));
    usleep(300);
    OK(MPI_Recv(in, 2, item, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Recv(&received[4][0], 1, ragged, right, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    sum = mix(sum, received, sizeof(received));
    for (int i = 0; i < 2; i++)
        sum = mix(mix(sum, &in[i].value, sizeof(double)), in[i].counts, sizeof(in[i].counts));
}

static int total(MPI_Comm comm, int number)
{
    int all = -1;
    OK(MPI_Allreduce(&number, &all, 1, MPI_INT, MPI_SUM, comm));
    return all;
}

static void communicators(int round)
{
    int numbers[8] = {0}, around[8] = {0}, from_there = -1, source, target;
    MPI_Request requests[2];
    numbers[0] = total(half, rank + round);
    numbers[1] = total(row, rank * round);
    OK(MPI_Cart_shift(row, 0, 1, &source, &target));
    numbers[2] = source * 10 + target;
    OK(MPI_Neighbor_allgather(&rank, 1, MPI_INT, around, 1, MPI_INT, ring));
    OK(MPI_Neighbor_allgather(&round, 1, MPI_INT, around + 4, 1, MPI_INT, star));
    /* From each rank to the remote leader, which never replies; and a collective of both. */
    OK(MPI_Isend(&rank, 1, MPI_INT, 0, 4, bridge, &requests[0]));
    numbers[3] = total(bridge, rank + 1);
    int place, expected;
    OK(MPI_Comm_rank(bridge, &place));
    OK(MPI_Comm_remote_size(bridge, &expected));
    usleep(300);
    for (int i = 0; place == 0 && i < expected; i++) {
        OK(MPI_Recv(&from_there, 1, MPI_INT, i, 4, bridge, MPI_STATUS_IGNORE));
        sum = mix(sum, &from_there, sizeof(from_there));
    }
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    OK(MPI_Ibcast(&round, 1, MPI_INT, 0, grid, &requests[1]));
    usleep(200);
    OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    sum = mix(mix(sum, numbers, sizeof(numbers)), around, sizeof(around));
}

static void persistent_requests(int round)
{
    sent_number = rank * 7 + round;
    OK(MPI_Startall(4, persistent));
    usleep(300);
    OK(MPI_Waitall(4, persistent, MPI_STATUSES_IGNORE));
    sum = mix(sum, got_number, sizeof(got_number));
}

/* Two-phase I/O and ordered access write through other ranks: sync makes it readable by all. */
static void written(MPI_File one)
{
    OK(MPI_File_sync(one));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void files(int round)
{
    int numbers[BLOCK], back[BLOCK];
    MPI_Offset position;
    for (int i = 0; i < BLOCK; i++)
        numbers[i] = 100 * rank + i + round;
    OK(MPI_File_write_all(file, numbers, BLOCK, MPI_INT, MPI_STATUS_IGNORE));
    usleep(200);
    OK(MPI_File_get_position(file, &position));
    CHECK(position == (MPI_Offset)(round + 1) * BLOCK);
    written(file);
    OK(MPI_File_read_at(file, (MPI_Offset)(round / 2) * BLOCK, back, BLOCK, MPI_INT,
                        MPI_STATUS_IGNORE));
    sum = mix(sum, back, sizeof(back));
}

static void by_shared_position(int round)
{
    static MPI_File common;
    char line[16], where[4096 + 8];
    if (round == 0) {
        snprintf(where, sizeof(where), "%s.lines", name);
        OK(MPI_File_open(MPI_COMM_WORLD, where, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                         &common));
        OK(MPI_File_set_size(common, 0));
    }
    snprintf(line, sizeof(line), "%04d %02d\n", round, rank);
    OK(MPI_File_write_ordered(common, line, 8, MPI_CHAR, MPI_STATUS_IGNORE));
    MPI_Offset position;
    OK(MPI_File_get_position_shared(common, &position));
    CHECK(position == (MPI_Offset)(round + 1) * size * 8);
    written(common);
    if (round % 4 == 3) {
        OK(MPI_File_read_at(common, position - 8, line, 8, MPI_CHAR, MPI_STATUS_IGNORE));
        sum = mix(sum, line, 8);
    }
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 20;
    begin_ring(&argc, &argv);
    make_types();
    make_communicators();
    make_file();
    OK(MPI_Recv_init(&got_number[0], 1, MPI_INT, left, 5, star, &persistent[0]));
    OK(MPI_Recv_init(&got_number[1], 1, MPI_INT, right, 6, ring, &persistent[1]));
    OK(MPI_Send_init(&sent_number, 1, MPI_INT, right, 5, star, &persistent[2]));
    OK(MPI_Ssend_init(&sent_number, 1, MPI_INT, left, 6, ring, &persistent[3]));
    for (int round = 0; round < rounds; round++) {
        types(round);
        communicators(round);
        persistent_requests(round);
        files(round);
        by_shared_position(round);
    }
    for (int i = 0; i < 4; i++)
        OK(MPI_Request_free(&persistent[i]));
    OK(MPI_File_close(&file));
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
