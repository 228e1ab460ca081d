/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of every kind, made before the program is saved and used after it is restarted. */
#include "check.h"
#include "pause.h"

#include <pthread.h>
#include <string.h>

static int rank, size;
static int is_last; /* set for the final phase: earlier output would be lost with the job */

#define SAY(...) (is_last ? printf(__VA_ARGS__) : 0)

/* Communicators: of all shapes, with parents that may have been freed. */

static MPI_Comm copy, half, grid, row, ring, star, bridge, merged, alone, few;

static void make_communicators(void)
{
    MPI_Comm parent;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half));
    const int dims[2] = {2, size / 2}, periods[2] = {0, 1};
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid));
    if (grid != MPI_COMM_NULL) {
        const int remain[2] = {0, 1};
        OK(MPI_Cart_sub(grid, remain, &row));
        OK(MPI_Comm_set_name(row, "a row"));
    }
    int index[64], edges[128];
    for (int i = 0; i < size; i++) {
        edges[2 * i] = (i + 1) % size;
        edges[2 * i + 1] = (i + size - 1) % size;
        index[i] = 2 * i + 2;
    }
    OK(MPI_Graph_create(copy, size, index, edges, 0, &ring));
    const int next = (rank + 1) % size, before = (rank + size - 1) % size, weight = 3 + rank;
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, &weight, 1, &next, &weight,
                                      MPI_INFO_NULL, 0, &star));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? size - 2 : size - 1, 7, &bridge));
    OK(MPI_Intercomm_merge(bridge, rank % 2, &merged));
    /* The parent of `few` is freed, and so are its siblings on other ranks. */
    OK(MPI_Comm_dup(merged, &parent));
    OK(MPI_Comm_split(parent, rank < 2 ? 0 : 1, rank, &few));
    OK(MPI_Comm_free(&parent));
    if (rank >= 2)
        OK(MPI_Comm_free(&few));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &alone));
}

static int total(MPI_Comm comm, int number)
{
    int sum = -1;
    OK(MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, comm));
    return sum;
}

static void use_communicators(void)
{
    int place, count, coords[2], dims[2], periods[2], kind, neighbours[2], length;
    char name[MPI_MAX_OBJECT_NAME];
    OK(MPI_Comm_rank(half, &place));
    OK(MPI_Comm_size(half, &count));
    SAY("%d: half %d of %d, sums %d %d %d %d %d\n", rank, place, count, total(copy, rank),
        total(half, rank), total(merged, rank), total(alone, rank),
        few == MPI_COMM_NULL ? -1 : total(few, rank));
    OK(MPI_Topo_test(half, &kind));
    CHECK(kind == MPI_UNDEFINED);
    if (grid != MPI_COMM_NULL) {
        OK(MPI_Cart_get(grid, 2, dims, periods, coords));
        OK(MPI_Comm_get_name(row, name, &length));
        SAY("%d: grid %dx%d, periodic %d %d, at %d %d, '%s' has %d\n", rank, dims[0], dims[1],
            periods[0], periods[1], coords[0], coords[1], name, total(row, rank));
    }
    OK(MPI_Graph_neighbors(ring, rank, 2, neighbours));
    int from[2] = {-1, -1}, mine = 100 + rank;
    OK(MPI_Neighbor_allgather(&mine, 1, MPI_INT, from, 1, MPI_INT, ring));
    SAY("%d: ring of %d %d, got %d %d\n", rank, neighbours[0], neighbours[1], from[0], from[1]);
    int source, source_weight, target, target_weight;
    OK(MPI_Dist_graph_neighbors(star, 1, &source, &source_weight, 1, &target, &target_weight));
    OK(MPI_Neighbor_allgather(&mine, 1, MPI_INT, from, 1, MPI_INT, star));
    SAY("%d: star %d (%d) %d (%d), got %d\n", rank, source, source_weight, target, target_weight,
        from[0]);
    OK(MPI_Comm_test_inter(bridge, &kind));
    OK(MPI_Comm_remote_size(bridge, &count));
    SAY("%d: bridge %d, to %d, sum %d\n", rank, kind, count, total(bridge, rank));
}

/* Groups. */

static MPI_Group odd, everybody, same;

static void make_groups(void)
{
    int ranges[1][3] = {{1, size - 1, 2}};
    OK(MPI_Comm_group(MPI_COMM_WORLD, &everybody));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &same)); /* the same handle, perhaps */
    OK(MPI_Group_range_incl(everybody, 1, ranges, &odd));
}

static void use_groups(void)
{
    int count, place, result;
    MPI_Group rest;
    MPI_Comm comm;
    OK(MPI_Group_size(odd, &count));
    OK(MPI_Group_rank(odd, &place));
    OK(MPI_Group_compare(everybody, same, &result));
    CHECK(result == MPI_IDENT);
    OK(MPI_Group_difference(everybody, odd, &rest));
    OK(MPI_Comm_create(MPI_COMM_WORLD, rest, &comm));
    printf("%d: %d odd ones, here %d; others' sum %d\n", rank, count, place,
           comm == MPI_COMM_NULL ? -1 : total(comm, rank));
    if (comm != MPI_COMM_NULL)
        OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&rest));
    OK(MPI_Group_free(&everybody));
    CHECK(everybody == MPI_GROUP_NULL);
    OK(MPI_Group_size(same, &count));
    CHECK(count == size);
    OK(MPI_Group_free(&same));
    OK(MPI_Group_free(&odd));
}

/* Datatypes, derived from others that have been freed. */

enum { KINDS = 10 };
static MPI_Datatype types[KINDS];

static void make_types(void)
{
    MPI_Datatype pair, inner;
    const int lengths[3] = {2, 1, 3}, places[3] = {0, 5, 9};
    const MPI_Aint offsets[3] = {0, 40, 64};
    const MPI_Datatype members[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
    const int whole[2] = {6, 8}, part[2] = {2, 3}, start[2] = {1, 2};
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_vector(3, 2, 4, pair, &types[0]));
    OK(MPI_Type_create_struct(3, lengths, offsets, members, &inner));
    OK(MPI_Type_create_resized(inner, 0, 80, &types[1]));
    OK(MPI_Type_indexed(3, lengths, places, types[1], &types[2]));
    OK(MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_FLOAT, &types[3]));
    OK(MPI_Type_create_hindexed(3, lengths, offsets, pair, &types[4]));
    OK(MPI_Type_create_indexed_block(3, 2, places, MPI_SHORT, &types[5]));
    OK(MPI_Type_create_hvector(2, 3, 100, MPI_LONG, &types[6]));
    OK(MPI_Type_dup(types[0], &types[7]));
    const int sizes[1] = {16}, spread[1] = {MPI_DISTRIBUTE_BLOCK};
    const int argument[1] = {MPI_DISTRIBUTE_DFLT_DARG}, processes[1] = {2};
    OK(MPI_Type_create_darray(2, rank % 2, 1, sizes, spread, argument, processes, MPI_ORDER_C,
                              MPI_INT, &types[8]));
    OK(MPI_Type_create_hindexed_block(3, 2, offsets, MPI_INT, &types[9]));
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_free(&inner));
    for (int i = 0; i < KINDS; i++)
        OK(MPI_Type_commit(&types[i]));
    OK(MPI_Type_set_name(types[2], "two, one, three"));
}

static void use_types(void)
{
    enum { BYTES = 4096 };
    static unsigned char from[BYTES], packed[BYTES], to[BYTES];
    for (int i = 0; i < BYTES; i++)
        from[i] = (unsigned char)(i * 7 + rank);
    for (int i = 0; i < KINDS; i++) {
        int at = 0, bytes;
        MPI_Aint low, extent;
        OK(MPI_Type_size(types[i], &bytes));
        OK(MPI_Type_get_extent(types[i], &low, &extent));
        OK(MPI_Pack(from, 1, types[i], packed, BYTES, &at, MPI_COMM_WORLD));
        memset(to, 0, BYTES);
        const int next = (rank + 1) % size, before = (rank + size - 1) % size;
        OK(MPI_Sendrecv(from, 1, types[i], next, i, to, 1, types[i], before, i, copy,
                        MPI_STATUS_IGNORE));
        printf("%d: type %d: %d bytes, %ld to %ld, %016llx %016llx\n", rank, i, bytes, (long)low,
               (long)extent, mix(1, packed, (size_t)at), mix(1, to, BYTES));
    }
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    OK(MPI_Type_get_name(types[2], name, &length));
    CHECK(strcmp(name, "two, one, three") == 0);
    for (int i = 0; i < KINDS; i++)
        OK(MPI_Type_free(&types[i]));
}

/* Operations, one of which does not commute; error handlers, infos. */

static MPI_Op weave, largest;
static MPI_Errhandler ours;
static MPI_Info info;
static int handled, file_errors;

static void weave_them(void *in, void *inout, int *count, MPI_Datatype *type)
{
    CHECK(*type == MPI_LONG);
    for (int i = 0; i < *count; i++)
        ((long *)inout)[i] = ((long *)in)[i] * 3 + ((long *)inout)[i];
}

static void take_larger(void *in, void *inout, int *count, MPI_Datatype *type)
{
    CHECK(*type == MPI_LONG);
    for (int i = 0; i < *count; i++)
        if (((long *)in)[i] > ((long *)inout)[i])
            ((long *)inout)[i] = ((long *)in)[i];
}

static void on_error(MPI_Comm *comm, int *code, ...)
{
    int class;
    MPI_Error_class(*code, &class);
    handled += *comm == half && class == MPI_ERR_TAG;
}

static void on_file_error(MPI_File *file, int *code, ...)
{
    CHECK(*file != NULL && *code != MPI_SUCCESS);
    file_errors++;
}

static void make_small_things(void)
{
    MPI_Errhandler gone;
    OK(MPI_File_create_errhandler(on_file_error, &gone));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, gone));
    OK(MPI_Errhandler_free(&gone));
    OK(MPI_Op_create(weave_them, 0, &weave));
    OK(MPI_Op_create(take_larger, 1, &largest));
    OK(MPI_Comm_create_errhandler(on_error, &ours));
    OK(MPI_Comm_create_errhandler(on_error, &gone));
    OK(MPI_Comm_set_errhandler(half, gone));
    OK(MPI_Errhandler_free(&gone));
    OK(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "colour", "green"));
    OK(MPI_Info_set(info, "size", "large and larger"));
}

static void use_small_things(void)
{
    long mine = rank + 1, woven = 0, most = 0;
    int commutes, flag, keys;
    char value[64];
    MPI_File file;
    CHECK(MPI_File_open(MPI_COMM_SELF, "/does/not/exist", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) !=
          MPI_SUCCESS);
    CHECK(file_errors == 1);
    OK(MPI_Allreduce(&mine, &woven, 1, MPI_LONG, weave, MPI_COMM_WORLD));
    OK(MPI_Allreduce(&mine, &most, 1, MPI_LONG, largest, half));
    OK(MPI_Op_commutative(weave, &commutes));
    CHECK(!commutes);
    OK(MPI_Op_commutative(largest, &commutes));
    CHECK(commutes);
    CHECK(MPI_Send(&rank, 1, MPI_INT, 0, -5, half) != MPI_SUCCESS);
    CHECK(MPI_Send(&rank, 1, MPI_INT, 0, -5, copy) != MPI_SUCCESS);
    CHECK(handled == 1);
    OK(MPI_Comm_set_errhandler(copy, ours));
    CHECK(MPI_Send(&rank, 1, MPI_INT, 0, -5, copy) != MPI_SUCCESS);
    OK(MPI_Errhandler_free(&ours));
    OK(MPI_Info_get_nkeys(info, &keys));
    OK(MPI_Info_get(info, "size", 63, value, &flag));
    printf("%d: woven %ld, most %ld, %d keys, '%s'\n", rank, woven, most, keys, value);
    OK(MPI_Info_free(&info));
    OK(MPI_Op_free(&weave));
    OK(MPI_Op_free(&largest));
}

/* Attributes and their callbacks. */

static int first, second, third, copied, deleted;

static int copy_value(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    CHECK(extra == &copied && keyval == second && comm == half);
    copied++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_value(MPI_Comm comm, int keyval, void *value, void *extra)
{
    CHECK(comm != MPI_COMM_NULL && keyval != MPI_KEYVAL_INVALID && value != NULL &&
          extra == &copied);
    deleted++;
    return MPI_SUCCESS;
}

/* Called by MPI_Finalize, in the reverse of the order in which they were set. */
static int say_end(MPI_Comm comm, int keyval, void *value, void *extra)
{
    static int ends;
    CHECK(comm == MPI_COMM_SELF && keyval != MPI_KEYVAL_INVALID && extra == NULL);
    printf("%d: end %d is that of %s\n", rank, ++ends, (const char *)value);
    return MPI_SUCCESS;
}

static void set_ends(void)
{
    static char *const values[] = {"the first", "the second", "the third"};
    for (int i = 0; i < 3; i++) {
        int keyval;
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, say_end, &keyval, NULL));
        OK(MPI_Comm_set_attr(MPI_COMM_SELF, keyval, values[i]));
        if (i == 1)
            OK(MPI_Comm_free_keyval(&keyval));
    }
}

static void make_attributes(void)
{
    int gone;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &gone, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &first, NULL));
    OK(MPI_Comm_create_keyval(copy_value, delete_value, &second, &copied));
    OK(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &third, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, first, &handled));
    OK(MPI_Comm_set_attr(half, second, (char *)1000));
    OK(MPI_Type_set_attr(types[1], third, (char *)77));
    OK(MPI_Type_set_attr(MPI_INT, third, (char *)78));
    OK(MPI_Type_set_name(MPI_SHORT, "a short one"));
    OK(MPI_Comm_free_keyval(&gone));
    const int keep = second; /* freed, but the attribute stays */
    OK(MPI_Comm_set_attr(copy, second, (char *)2000));
    OK(MPI_Comm_free_keyval(&second));
    second = keep;
}

static void use_attributes(void)
{
    int flag;
    char *value;
    MPI_Comm other;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, first, &value, &flag));
    CHECK(flag && value == (char *)&handled);
    OK(MPI_Comm_get_attr(MPI_COMM_SELF, first, &value, &flag));
    CHECK(!flag);
    OK(MPI_Type_get_attr(types[1], third, &value, &flag));
    CHECK(flag && value == (char *)77);
    OK(MPI_Type_get_attr(MPI_INT, third, &value, &flag));
    CHECK(flag && value == (char *)78);
    OK(MPI_Type_delete_attr(MPI_INT, third));
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    OK(MPI_Type_get_name(MPI_SHORT, name, &length));
    CHECK(strcmp(name, "a short one") == 0);
    OK(MPI_Comm_dup(half, &other));
    OK(MPI_Comm_get_attr(other, second, &value, &flag));
    CHECK(flag && value == (char *)1001 && copied == 1);
    OK(MPI_Comm_free(&other));
    CHECK(deleted == 1);
    int *upper;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &upper, &flag));
    CHECK(flag && *upper >= 32767);
    OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, first));
    OK(MPI_Comm_free_keyval(&first));
}

/* Another thread calls first after a restart, and so the new library takes it for the main one. */

static void *ask(void *flag)
{
    OK(MPI_Is_thread_main(flag));
    return NULL;
}

static void ask_in_threads(void)
{
    int here = 0, there = 1;
    pthread_t other;
    CHECK(pthread_create(&other, NULL, ask, &there) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    OK(MPI_Is_thread_main(&here));
    CHECK(here && !there);
}

int main(int argc, char **argv)
{
    int level;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    make_communicators();
    make_groups();
    make_types();
    make_small_things();
    make_attributes();
    set_ends();
    wait_here(rank);
    ask_in_threads();
    int now;
    OK(MPI_Query_thread(&now));
    CHECK(now == level);
    use_communicators();
    use_attributes();
    wait_here(rank);
    is_last = 1;
    use_communicators();
    use_groups();
    use_types();
    use_small_things();
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_free(&copy));
    CHECK(deleted == 3);
    OK(MPI_Finalize());
    return 0;
}
