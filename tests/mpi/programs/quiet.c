/* SPDX-License-Identifier: Apache-2.0 */
/* A program with its own malloc that computes between its MPI calls and allocates nothing then:
 * nor may any other code in it. It may be saved and restored at a moment when it is inside
 * malloc.
 *
 *     quiet ROUNDS [plain]
 *
 * Plain: without windows and files.
 */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <execinfo.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static volatile int computes; /* while it is set, no code in the process may allocate */

static void look(const char *function)
{
    if (!computes)
        return;
    computes = 0;
    void *frames[40];
    dprintf(STDERR_FILENO, "%s while the program computes\n", function);
    backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
    _exit(3);
}

void *malloc(size_t size)
{
    look("malloc");
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    look("calloc");
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    look("realloc");
    return __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size)
{
    look("memalign");
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    look("aligned_alloc");
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **place, size_t alignment, size_t size)
{
    look("posix_memalign");
    *place = __libc_memalign(alignment, size);
    return *place != NULL ? 0 : ENOMEM;
}

void free(void *memory)
{
    look("free");
    __libc_free(memory);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void compute(int milliseconds)
{
    const double end = now() + milliseconds / 1e3;
    computes = 1;
    while (now() < end)
        ;
    computes = 0;
}

static int copy_attribute(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    const int plain = argc > 2;
    int rank, ranks, key, coordinates[1], periodic[1] = {1};
    unsigned long long sum = 14695981039346656037ULL;
    void *frames[4];
    backtrace(frames, 4); /* loads a library the first time */
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));

    /* Some of every kind of object that a restart recreates. */
    MPI_Comm ring, half;
    MPI_Datatype column;
    MPI_Op own_sum;
    MPI_Group group;
    MPI_Info info;
    MPI_Win window;
    MPI_File file;
    int *shared;
    char name[64];
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, periodic, 0, &ring));
    OK(MPI_Cart_coords(ring, rank, 1, coordinates));
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
    OK(MPI_Comm_set_name(half, "half"));
    OK(MPI_Comm_create_keyval(copy_attribute, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_set_attr(half, key, &sum));
    OK(MPI_Type_vector(4, 1, 3, MPI_INT, &column));
    OK(MPI_Type_commit(&column));
    OK(MPI_Op_create(add, 1, &own_sum));
    OK(MPI_Comm_group(ring, &group));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "key", "value"));
    if (!plain) {
        OK(MPI_Win_allocate(sizeof(int), sizeof(int), info, MPI_COMM_WORLD, &shared, &window));
        snprintf(name, sizeof name, "%s/quiet.file", getenv("CRYO_SCRATCH"));
        OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    }

    for (int i = 0; i < rounds; i++) {
        const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
        int out[12], in[12] = {0}, total;
        MPI_Request request;
        for (int j = 0; j < 12; j++)
            out[j] = i + rank * j;
        OK(MPI_Irecv(in, 1, column, left, i, ring, &request));
        compute(i % 5);
        OK(MPI_Send(out, 1, column, right, i, ring));
        compute(rank == i % ranks ? 8 : 0);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Allreduce(in, &total, 1, MPI_INT, own_sum, half));
        sum = mix(mix(sum, in, sizeof in), &total, sizeof total);
    }
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    if (!plain) {
        OK(MPI_File_close(&file));
        OK(MPI_Win_free(&window));
    }
    OK(MPI_Info_free(&info));
    OK(MPI_Group_free(&group));
    OK(MPI_Op_free(&own_sum));
    OK(MPI_Type_free(&column));
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_free(&ring));
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Finalize());
    return 0;
}
