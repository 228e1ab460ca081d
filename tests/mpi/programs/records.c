/* SPDX-License-Identifier: Apache-2.0 */
/* MPI files with all ways of reading and writing, for as many rounds as the first argument says:
 * views, individual and shared positions, one call and two, waited for at once and later. Prints a
 * checksum of what each rank has read. */
#include "check.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 6, ROUNDS_KEPT = 8, REQUESTS = 7 };

static int rank, size, errors;
static unsigned long long sum = 14695981039346656037ULL;
static MPI_File striped, common, own, doomed;
static MPI_Datatype stripes;
static MPI_Comm noted;
static int copied, deleted;

static void count_error(MPI_File *file, int *code, ...)
{
    (void)file;
    (void)code;
    errors++;
}

static void open_file(MPI_Comm comm, const char *which, int number, int mode, MPI_File *file)
{
    char name[4096];
    snprintf(name, sizeof(name), "%s/%s.%d", getenv("CRYO_SCRATCH"), which, number);
    OK(MPI_File_open(comm, name, mode | MPI_MODE_CREATE, MPI_INFO_NULL, file));
    OK(MPI_File_set_size(*file, 0));
}

static void make(void)
{
    MPI_Info info;
    MPI_Errhandler handler;
    open_file(MPI_COMM_WORLD, "striped", 0, MPI_MODE_RDWR, &striped);
    open_file(MPI_COMM_WORLD, "common", 0, MPI_MODE_RDWR, &common);
    open_file(MPI_COMM_SELF, "own", rank, MPI_MODE_RDWR | MPI_MODE_UNIQUE_OPEN, &own);
    open_file(MPI_COMM_SELF, "doomed", rank, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, &doomed);
    /* Every size-th block of integers belongs to one rank; each row ends with a hole. */
    OK(MPI_Type_vector(2, BLOCK / 2, size * BLOCK / 2, MPI_INT, &stripes));
    OK(MPI_Type_create_resized(stripes, 0, (MPI_Aint)sizeof(int) * size * BLOCK + 8, &stripes));
    OK(MPI_Type_commit(&stripes));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "cb_nodes", "1"));
    OK(MPI_File_set_view(striped, 16 + (MPI_Offset)sizeof(int) * rank * BLOCK / 2, MPI_INT, stripes,
                         "native", info));
    OK(MPI_Info_free(&info));
    OK(MPI_File_set_atomicity(own, 1));
    OK(MPI_File_create_errhandler(count_error, &handler));
    OK(MPI_File_set_errhandler(own, handler));
    OK(MPI_Errhandler_free(&handler));
}

/* Called for the library's own copies of the communicator, too. */
static void look_at_note(MPI_Comm comm, const void *value, const void *extra)
{
    int number, members;
    CHECK(value == &noted && extra == &copied);
    OK(MPI_Comm_rank(comm, &number));
    OK(MPI_Comm_size(comm, &members));
    CHECK(number == rank && members == size);
}

static int copy_note(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)keyval;
    look_at_note(comm, in, extra);
    copied++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_note(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)keyval;
    look_at_note(comm, value, extra);
    deleted++;
    return MPI_SUCCESS;
}

/* A file and a window of a communicator with an attribute, which the library's copies of it have,
 * too. They come and go: what is saved knows only the communicator. */
static void leave_no_copies(int round)
{
    MPI_File file;
    MPI_Win win;
    char name[4096];
    if (round == 0) {
        int keyval;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &noted));
        OK(MPI_Comm_create_keyval(copy_note, delete_note, &keyval, &copied));
        OK(MPI_Comm_set_attr(noted, keyval, &noted));
        OK(MPI_Comm_free_keyval(&keyval));
    }
    snprintf(name, sizeof(name), "%s/noted", getenv("CRYO_SCRATCH"));
    OK(MPI_File_open(noted, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_close(&file));
    OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, noted, &win));
    OK(MPI_Win_free(&win));
    CHECK(deleted <= copied);
}

static void add(const void *data, size_t bytes)
{
    sum = mix(sum, data, bytes);
}

/* Checks the file's state, which must survive a change of the library. */
static void look(int round)
{
    MPI_Offset at, displacement;
    MPI_Datatype etype, filetype;
    char representation[MPI_MAX_DATAREP_STRING + 1];
    MPI_Aint lower, extent;
    int flag, mode;
    OK(MPI_File_get_position(striped, &at));
    CHECK(at == (MPI_Offset)(round % ROUNDS_KEPT) * 2 * BLOCK);
    OK(MPI_File_get_view(striped, &displacement, &etype, &filetype, representation));
    CHECK(displacement == 16 + (MPI_Offset)sizeof(int) * rank * BLOCK / 2 && etype == MPI_INT);
    CHECK(strcmp(representation, "native") == 0);
    OK(MPI_Type_get_extent(filetype, &lower, &extent));
    CHECK(extent == (MPI_Aint)sizeof(int) * size * BLOCK + 8);
    OK(MPI_Type_free(&filetype));
    OK(MPI_File_get_atomicity(own, &flag));
    CHECK(flag);
    OK(MPI_File_get_amode(doomed, &mode));
    CHECK((mode & MPI_MODE_DELETE_ON_CLOSE) && (mode & MPI_MODE_RDWR));
    const int before = errors;
    MPI_File_call_errhandler(own, MPI_ERR_OTHER);
    CHECK(errors == before + 1);
}

/* From here on all ranks see what all have written. */
static void settle(MPI_File file)
{
    OK(MPI_File_sync(file));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_sync(file));
}

static void by_view(int round)
{
    int numbers[2 * BLOCK], back[2 * BLOCK];
    MPI_Status status;
    for (int i = 0; i < 2 * BLOCK; i++)
        numbers[i] = round * 1000 + rank * 100 + i;
    int count;
    OK(MPI_File_write_all(striped, numbers, BLOCK, MPI_INT, &status));
    OK(MPI_File_write_all_begin(striped, numbers + BLOCK, BLOCK, MPI_INT));
    usleep(500); /* a different instance of the library may complete it */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    usleep(500);
    OK(MPI_File_write_all_end(striped, numbers + BLOCK, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == BLOCK);
    settle(striped);
    OK(MPI_File_seek(striped, -2 * BLOCK, MPI_SEEK_CUR));
    OK(MPI_File_read(striped, back, BLOCK, MPI_INT, &status));
    usleep(200);
    OK(MPI_File_read_all(striped, back + BLOCK, BLOCK, MPI_INT, &status));
    CHECK(memcmp(numbers, back, sizeof(back)) == 0);
    add(back, sizeof(back));
    if (round % ROUNDS_KEPT == ROUNDS_KEPT - 1)
        OK(MPI_File_seek(striped, 0, MPI_SEEK_SET));
}

static void by_common_position(int round)
{
    int number = round * 100 + rank, *back = malloc(sizeof(int) * (size_t)size);
    MPI_Offset at;
    OK(MPI_File_write_ordered(common, &number, sizeof(number), MPI_BYTE, MPI_STATUS_IGNORE));
    usleep(200);
    OK(MPI_File_get_position_shared(common, &at));
    CHECK(at == (MPI_Offset)sizeof(int) * size * (2 * (round % ROUNDS_KEPT) + 1));
    settle(common);
    OK(MPI_File_read_at_all(common, at - (MPI_Offset)sizeof(int) * size, back,
                            (int)sizeof(int) * size, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < size; i++)
        CHECK(back[i] == round * 100 + i);
    add(back, sizeof(int) * (size_t)size);
    /* In any order. */
    OK(MPI_File_write_shared(common, &number, sizeof(number), MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (round % ROUNDS_KEPT == ROUNDS_KEPT - 1)
        OK(MPI_File_seek_shared(common, 0, MPI_SEEK_SET));
    free(back);
}

static void later(int round)
{
    int numbers[BLOCK], back[BLOCK] = {0};
    const MPI_Offset at = (MPI_Offset)(round % ROUNDS_KEPT) * (MPI_Offset)sizeof(numbers);
    MPI_Request request;
    MPI_Status status;
    int count, done = 0;
    MPI_Offset reached;
    for (int i = 0; i < BLOCK; i++)
        numbers[i] = round * 7 + rank + i;
    OK(MPI_File_iwrite_at(own, at, numbers, BLOCK, MPI_INT, &request));
    usleep(200);
    OK(MPI_Wait(&request, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == BLOCK);
    OK(MPI_File_iread_at(own, at, back, BLOCK, MPI_INT, &request));
    while (!done) {
        usleep(100);
        OK(MPI_Test(&request, &done, &status));
    }
    CHECK(memcmp(numbers, back, sizeof(back)) == 0);
    add(back, sizeof(back));
    OK(MPI_File_iwrite(doomed, numbers, BLOCK, MPI_INT, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_File_get_position(doomed, &reached));
    add(&reached, sizeof(reached));
    if (round % 100 == 99)
        OK(MPI_File_seek(doomed, 0, MPI_SEEK_SET));
}

/* Several requests of a file in one call, and a message, which comes last at rank 0. (Not in
 * MPI_Testall: MPICH then aborts with an assertion, natively too.) */
static int wait_for_several(int way, int count, MPI_Request *requests)
{
    int done = 0, some, flag, indices[REQUESTS + 1];
    MPI_Status statuses[REQUESTS + 1];
    switch (way) {
    case 0:
        OK(MPI_Waitall(count, requests, statuses));
        return count;
    case 1:
        do {
            OK(MPI_Waitany(count, requests, &some, statuses));
            done += some != MPI_UNDEFINED;
        } while (some != MPI_UNDEFINED);
        return done;
    case 2:
        do {
            OK(MPI_Testany(count, requests, &some, &flag, statuses));
            done += flag && some != MPI_UNDEFINED;
        } while (!flag || some != MPI_UNDEFINED);
        return done;
    default:
        for (;;) {
            if (way == 3)
                OK(MPI_Waitsome(count, requests, &some, indices, statuses));
            else
                OK(MPI_Testsome(count, requests, &some, indices, statuses));
            if (some == MPI_UNDEFINED)
                return done;
            done += some;
        }
    }
}

static void several(int round)
{
    int numbers[REQUESTS], back[REQUESTS] = {0}, from_before = -1;
    MPI_Request requests[REQUESTS + 1];
    for (int way = 0; way < 5; way++) {
        for (int i = 0; i < REQUESTS; i++) {
            numbers[i] = round * 31 + way * 7 + rank + i;
            OK(MPI_File_iwrite_at(doomed, 4 * i, &numbers[i], 1, MPI_INT, &requests[i]));
        }
        OK(MPI_Irecv(&from_before, 1, MPI_INT, (rank + size - 1) % size, way, MPI_COMM_WORLD,
                     &requests[REQUESTS]));
        if (rank == 0)
            OK(MPI_Send(&way, 1, MPI_INT, 1 % size, way, MPI_COMM_WORLD));
        CHECK(wait_for_several(way, REQUESTS + 1, requests) == REQUESTS + 1);
        if (rank != 0)
            OK(MPI_Send(&way, 1, MPI_INT, (rank + 1) % size, way, MPI_COMM_WORLD));
        CHECK(from_before == way);
        for (int i = 0; i < REQUESTS; i++)
            OK(MPI_File_iread_at(doomed, 4 * i, &back[i], 1, MPI_INT, &requests[i]));
        CHECK(wait_for_several(4 - way, REQUESTS, requests) == REQUESTS);
        CHECK(memcmp(numbers, back, sizeof(back)) == 0);
        add(back, sizeof(back));
    }
}

/* Several collective requests in one wait: all ranks' libraries must process them in one order. */
static void together(int round)
{
    int numbers[REQUESTS][BLOCK], back[REQUESTS][BLOCK] = {{0}};
    MPI_Request requests[REQUESTS];
    const MPI_Offset behind = ROUNDS_KEPT * 2 * BLOCK;
    for (int i = 0; i < REQUESTS; i++) {
        for (int k = 0; k < BLOCK; k++)
            numbers[i][k] = round * 1000 + rank * 100 + i * BLOCK + k;
        OK(MPI_File_iwrite_at_all(striped, behind + i * BLOCK, numbers[i], BLOCK, MPI_INT,
                                  &requests[i]));
    }
    if (rank % 2 == round % 2)
        usleep(200);
    CHECK(wait_for_several(0, REQUESTS, requests) == REQUESTS);
    settle(striped);
    for (int i = 0; i < REQUESTS; i++)
        OK(MPI_File_iread_at_all(striped, behind + i * BLOCK, back[i], BLOCK, MPI_INT,
                                 &requests[i]));
    CHECK(wait_for_several(0, REQUESTS, requests) == REQUESTS);
    CHECK(memcmp(numbers, back, sizeof(back)) == 0);
    add(back, sizeof(back));
}

/* A file whose shared position is not used has no file of MPICH's for that, not while it is saved
 * either: it may lie where none can be made. */
static void look_for_hidden_files(void)
{
    DIR *directory = opendir(getenv("CRYO_SCRATCH"));
    const struct dirent *entry;
    CHECK(directory != NULL);
    while ((entry = readdir(directory)) != NULL)
        CHECK(strncmp(entry->d_name, ".own.", 5) != 0);
    closedir(directory);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 20;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    make();
    for (int round = 0; round < rounds; round++) {
        if (round % 100 == 0)
            leave_no_copies(round);
        look(round);
        by_view(round);
        by_common_position(round);
        later(round);
        several(round);
        together(round);
    }
    OK(MPI_File_close(&doomed));
    OK(MPI_File_close(&own));
    OK(MPI_File_close(&common));
    OK(MPI_File_close(&striped));
    OK(MPI_Type_free(&stripes));
    const int before = deleted;
    OK(MPI_Comm_free(&noted));
    CHECK(deleted == before + 1);
    char name[4096];
    snprintf(name, sizeof(name), "%s/doomed.%d", getenv("CRYO_SCRATCH"), rank);
    CHECK(access(name, F_OK) != 0);
    look_for_hidden_files();
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
