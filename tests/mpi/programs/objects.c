/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators, groups, attributes, error handlers, info, names, windows, files, Fortran handles,
 * generalized requests: what objects report, and that they are gone once freed. */
#include "check.h"

#include <string.h>

static int rank, size;

static int copied, deleted, handled;

static int copy_number(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    CHECK(comm == MPI_COMM_WORLD && extra == &copied && keyval != MPI_KEYVAL_INVALID);
    copied++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_number(MPI_Comm comm, int keyval, void *value, void *extra)
{
    CHECK(comm != MPI_COMM_NULL && extra == &copied && value != NULL);
    (void)keyval;
    deleted++;
    return MPI_SUCCESS;
}

static void attributes(void)
{
    int keyval, flag;
    char *value;
    MPI_Comm copy;
    OK(MPI_Comm_create_keyval(copy_number, delete_number, &keyval, &copied));
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, (char *)1000));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_get_attr(copy, keyval, &value, &flag));
    CHECK(flag && value == (char *)1001 && copied == 1);
    OK(MPI_Comm_free(&copy));
    CHECK(copy == MPI_COMM_NULL && deleted == 1);
    OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval));
    OK(MPI_Comm_free_keyval(&keyval));
    CHECK(keyval == MPI_KEYVAL_INVALID && deleted == 2);

    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, &rank));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_get_attr(copy, keyval, &value, &flag));
    CHECK(flag && value == (char *)&rank);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval));
    OK(MPI_Comm_free_keyval(&keyval));

    int *upper;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &upper, &flag));
    CHECK(flag && *upper >= 32767);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &upper, &flag));
    CHECK(!flag || *upper >= 1);
}

static void on_error(MPI_Comm *comm, int *code, ...)
{
    int class;
    CHECK(*comm != MPI_COMM_NULL);
    MPI_Error_class(*code, &class);
    handled += class == MPI_ERR_TAG;
}

static void on_file_error(MPI_File *file, int *code, ...)
{
    CHECK(file != NULL && *code != MPI_SUCCESS);
    handled += 100;
}

static void error_handlers(void)
{
    MPI_Errhandler ours, found;
    MPI_Comm copy;
    OK(MPI_Comm_create_errhandler(on_error, &ours));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, ours));
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &found));
    CHECK(found == ours);
    OK(MPI_Errhandler_free(&found));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    CHECK(MPI_Send(&rank, 1, MPI_INT, 0, -5, copy) != MPI_SUCCESS);
    CHECK(handled == 1);
    OK(MPI_Comm_call_errhandler(copy, MPI_ERR_TAG));
    CHECK(handled == 2);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &found));
    CHECK(found == MPI_ERRORS_ARE_FATAL);
    OK(MPI_Errhandler_free(&ours));
    CHECK(ours == MPI_ERRHANDLER_NULL);

    MPI_File file;
    OK(MPI_File_create_errhandler(on_file_error, &ours));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, ours));
    CHECK(MPI_File_open(MPI_COMM_SELF, "/does/not/exist", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) !=
          MPI_SUCCESS);
    CHECK(handled == 102);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&ours));
}

static void groups(void)
{
    MPI_Group world, odd, rest, none, same;
    MPI_Comm odd_comm;
    int ranks[64], n = 0, result;
    for (int i = 1; i < size; i += 2)
        ranks[n++] = i;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &same));
    OK(MPI_Group_incl(world, n, ranks, &odd));
    OK(MPI_Group_excl(world, n, ranks, &rest));
    OK(MPI_Group_intersection(odd, rest, &none));
    CHECK(none == MPI_GROUP_EMPTY);
    OK(MPI_Group_compare(world, same, &result));
    CHECK(result == MPI_IDENT);
    OK(MPI_Comm_create(MPI_COMM_WORLD, odd, &odd_comm));
    CHECK((odd_comm == MPI_COMM_NULL) == (rank % 2 == 0));
    if (odd_comm != MPI_COMM_NULL) {
        OK(MPI_Comm_set_name(odd_comm, "odd ones"));
        char name[MPI_MAX_OBJECT_NAME];
        int length;
        OK(MPI_Comm_get_name(odd_comm, name, &length));
        CHECK(strcmp(name, "odd ones") == 0);
        OK(MPI_Comm_free(&odd_comm));
    }
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&same));
    OK(MPI_Group_free(&odd));
    OK(MPI_Group_free(&rest));
    CHECK(rest == MPI_GROUP_NULL);
    MPI_Comm parent;
    OK(MPI_Comm_get_parent(&parent));
    CHECK(parent == MPI_COMM_NULL);
    MPI_Comm none_of_it;
    OK(MPI_Comm_split(MPI_COMM_WORLD, MPI_UNDEFINED, 0, &none_of_it));
    CHECK(none_of_it == MPI_COMM_NULL);
}

static void info(void)
{
    MPI_Info ours, copy;
    char value[32];
    int flag, keys;
    OK(MPI_Info_create(&ours));
    OK(MPI_Info_set(ours, "colour", "green"));
    OK(MPI_Info_dup(ours, &copy));
    OK(MPI_Info_get(copy, "colour", sizeof(value) - 1, value, &flag));
    CHECK(flag && strcmp(value, "green") == 0);
    OK(MPI_Info_get_nkeys(MPI_INFO_ENV, &keys));
    OK(MPI_Info_free(&ours));
    OK(MPI_Info_free(&copy));
    CHECK(copy == MPI_INFO_NULL);
}

static void windows(void)
{
    int *memory, *flavor, flag, got = -1, *unit;
    MPI_Win window;
    OK(MPI_Win_allocate((MPI_Aint)sizeof(int) * size, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                        &memory, &window));
    for (int i = 0; i < size; i++)
        memory[i] = 0;
    OK(MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, &flavor, &flag));
    CHECK(flag && *flavor == MPI_WIN_FLAVOR_ALLOCATE);
    OK(MPI_Win_get_attr(window, MPI_WIN_DISP_UNIT, &unit, &flag));
    CHECK(flag && *unit == (int)sizeof(int));
    void *base;
    OK(MPI_Win_get_attr(window, MPI_WIN_BASE, &base, &flag));
    CHECK(flag && base == memory);
    OK(MPI_Win_fence(0, window));
    int value = rank + 1;
    OK(MPI_Put(&value, 1, MPI_INT, (rank + 1) % size, rank, 1, MPI_INT, window));
    OK(MPI_Win_fence(0, window));
    const int from = (rank + size - 1) % size;
    CHECK(memory[from] == from + 1);
    OK(MPI_Accumulate(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window));
    OK(MPI_Win_fence(0, window));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window));
    OK(MPI_Get(&got, 1, MPI_INT, 0, 0, 1, MPI_INT, window));
    OK(MPI_Win_unlock(0, window));
    printf("%d: accumulated %d\n", rank, got);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, window));
    int old = 0, one = 1;
    OK(MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 0, MPI_SUM, window));
    OK(MPI_Win_flush_all(window));
    OK(MPI_Win_unlock_all(window));
    OK(MPI_Win_free(&window));
    CHECK(window == MPI_WIN_NULL);

    OK(MPI_Alloc_mem(10000, MPI_INFO_NULL, &memory));
    memset(memory, 1, 10000);
    OK(MPI_Win_create(memory, 10000, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    OK(MPI_Win_fence(0, window));
    OK(MPI_Win_free(&window));
    OK(MPI_Free_mem(memory));
}

static void files(void)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/file", getenv("CRYO_SCRATCH"));
    MPI_File file;
    MPI_Datatype every_other, etype, filetype;
    MPI_Offset displacement;
    char representation[MPI_MAX_DATAREP_STRING];
    int values[4], got[4 * 64];
    for (int i = 0; i < 4; i++)
        values[i] = rank * 10 + i;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_Type_vector(4, 1, size, MPI_INT, &every_other));
    OK(MPI_Type_commit(&every_other));
    OK(MPI_File_set_view(file, rank * (MPI_Offset)sizeof(int), MPI_INT, every_other, "native",
                         MPI_INFO_NULL));
    OK(MPI_File_get_view(file, &displacement, &etype, &filetype, representation));
    CHECK(displacement == rank * (MPI_Offset)sizeof(int) && filetype != MPI_DATATYPE_NULL);
    OK(MPI_File_write_all(file, values, 4, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_sync(file));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI_Request request;
    OK(MPI_File_iread_at(file, 0, got, 4 * size, MPI_INT, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    unsigned long long sum = mix(14695981039346656037ULL, got, sizeof(int) * 4 * (size_t)size);
    OK(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL);
    OK(MPI_Type_free(&every_other));
    printf("%d: file %016llx\n", rank, sum);
}

static void fortran_numbers(void)
{
    MPI_Comm copy;
    MPI_Status status = {.MPI_SOURCE = 3, .MPI_TAG = 4}, back;
    MPI_Fint words[sizeof(MPI_Status) / sizeof(MPI_Fint)];
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    CHECK(MPI_Comm_c2f(MPI_COMM_WORLD) == 0 && MPI_Comm_c2f(MPI_COMM_NULL) == 2);
    CHECK(MPI_Type_f2c(MPI_Type_c2f(MPI_INTEGER)) == MPI_INTEGER);
    CHECK(MPI_Op_f2c(MPI_Op_c2f(MPI_SUM)) == MPI_SUM);
    CHECK(MPI_Request_c2f(MPI_REQUEST_NULL) == 0);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(copy)) == copy);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Status_c2f(&status, words));
    OK(MPI_Status_f2c(words, &back));
    CHECK(back.MPI_SOURCE == 3 && back.MPI_TAG == 4);
}

static int queried, freed;

static int query(void *extra, MPI_Status *status)
{
    CHECK(extra == &queried);
    queried++;
    OK(MPI_Status_set_elements(status, MPI_INT, 7));
    OK(MPI_Status_set_cancelled(status, 0));
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    CHECK(extra == &queried);
    freed++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    (void)complete;
    CHECK(extra == &queried);
    return MPI_SUCCESS;
}

static void generalized(void)
{
    MPI_Request request;
    MPI_Status status;
    int count;
    OK(MPI_Grequest_start(query, release, cancel, &queried, &request));
    OK(MPI_Grequest_complete(request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == 7 && queried == 1 && freed == 1 && request == MPI_REQUEST_NULL);
}

static void tools(void)
{
    int provided, count;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_cvar_get_num(&count));
    CHECK(count > 0);
    char name[256];
    int length = sizeof(name), verbosity, bind, scope;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_T_enum set;
    OK(MPI_T_cvar_get_info(0, name, &length, &verbosity, &type, &set, NULL, NULL, &bind, &scope));
    CHECK(type != MPI_DATATYPE_NULL);
    OK(MPI_T_finalize());
}

int main(int argc, char **argv)
{
    int flag;
    OK(MPI_Initialized(&flag));
    CHECK(!flag);
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Initialized(&flag));
    CHECK(flag);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    attributes();
    error_handlers();
    groups();
    info();
    windows();
    files();
    fortran_numbers();
    generalized();
    tools();
    OK(MPI_Finalize());
    OK(MPI_Finalized(&flag));
    CHECK(flag);
    return 0;
}
