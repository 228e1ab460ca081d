/* SPDX-License-Identifier: Apache-2.0 */
/* Functions with large counts (MPI 4): messages, collectives, windows, files, and datatypes made by
 * them long before, for as many rounds as the first argument says. Prints a checksum.
 *
 *     large ROUNDS [huge]
 *
 * huge: also a message of 2 GiB, where there is memory for another copy of it.
 */
#include "ring.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MANY = 12, KINDS = 11 };

static unsigned long long sum = 14695981039346656037ULL;
static MPI_Datatype kinds[KINDS];
static MPI_Op product;
static MPI_Win window;
static MPI_File file;
static int *cells;

static void add(const void *data, size_t bytes)
{
    sum = mix(sum, data, bytes);
}

static void multiply(void *in, void *inout, MPI_Count *count, MPI_Datatype *type)
{
    CHECK(*type == MPI_INT);
    for (MPI_Count i = 0; i < *count; i++)
        ((int *)inout)[i] = (((const int *)in)[i] * ((int *)inout)[i]) % 9973;
}

static void make(void)
{
    const MPI_Count lengths[] = {2, 1}, places[] = {0, 3}, bytes[] = {0, 12}, more[] = {4, 16};
    const MPI_Count sizes[] = {4, 3}, parts[] = {2, 2}, starts[] = {1, 1}, whole[] = {4};
    const MPI_Datatype types[] = {MPI_INT, MPI_SHORT};
    const int by_block[] = {MPI_DISTRIBUTE_BLOCK}, usual[] = {MPI_DISTRIBUTE_DFLT_DARG},
              two[] = {2};
    OK(MPI_Type_contiguous_c(3, MPI_INT, &kinds[0]));
    OK(MPI_Type_vector_c(2, 1, 3, MPI_INT, &kinds[1]));
    OK(MPI_Type_create_hvector_c(2, 1, 8, MPI_INT, &kinds[2]));
    OK(MPI_Type_indexed_c(2, lengths, places, MPI_INT, &kinds[3]));
    OK(MPI_Type_create_hindexed_c(2, lengths, bytes, MPI_INT, &kinds[4]));
    OK(MPI_Type_create_indexed_block_c(2, 1, places, MPI_INT, &kinds[5]));
    OK(MPI_Type_create_hindexed_block_c(2, 1, more, MPI_INT, &kinds[6]));
    OK(MPI_Type_create_struct_c(2, lengths, more, types, &kinds[7]));
    OK(MPI_Type_create_subarray_c(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &kinds[8]));
    OK(MPI_Type_create_darray_c(2, 1, 1, whole, by_block, usual, two, MPI_ORDER_C, MPI_INT,
                                &kinds[9]));
    OK(MPI_Type_create_resized_c(kinds[1], 0, 28, &kinds[10]));
    for (int i = 0; i < KINDS; i++)
        OK(MPI_Type_commit(&kinds[i]));
    OK(MPI_Op_create_c(multiply, 1, &product));
    OK(MPI_Win_allocate_c(MANY * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &cells,
                          &window));
    memset(cells, 0, MANY * sizeof(int));
    char name[4096];
    snprintf(name, sizeof(name), "%s/large", getenv("CRYO_SCRATCH"));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
}

/* Checks a datatype by how it packs. */
static void look(int round)
{
    int numbers[2 * MANY];
    char packed[512];
    for (int i = 0; i < 2 * MANY; i++)
        numbers[i] = round * 31 + i;
    for (int i = 0; i < KINDS; i++) {
        MPI_Count at = 0, lower, extent, bytes, n[4];
        int combiner;
        OK(MPI_Pack_c(numbers, 1, kinds[i], packed, sizeof(packed), &at, MPI_COMM_WORLD));
        OK(MPI_Type_get_extent_c(kinds[i], &lower, &extent));
        OK(MPI_Type_size_c(kinds[i], &bytes));
        CHECK(at == bytes);
        OK(MPI_Type_get_envelope_c(kinds[i], &n[0], &n[1], &n[2], &n[3], &combiner));
        CHECK(n[2] > 0);
        add(packed, (size_t)at);
        add(&extent, sizeof(extent));
        add(n, sizeof(n));
        add(&combiner, sizeof(combiner));
    }
    int integers[1];
    MPI_Aint addresses[1];
    MPI_Count large[1];
    MPI_Datatype part[1];
    OK(MPI_Type_get_contents_c(kinds[0], 0, 0, 1, 1, integers, addresses, large, part));
    CHECK(large[0] == 3 && part[0] == MPI_INT);
}

static void messages(int round)
{
    int out[MANY], in[MANY] = {0}, also[MANY] = {0};
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Message message;
    MPI_Count count;
    for (int i = 0; i < MANY; i++)
        out[i] = round * 100 + rank * 20 + i;
    OK(MPI_Irecv_c(in, MANY, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend_c(out, MANY, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[1]));
    usleep(200);
    OK(MPI_Wait(&requests[0], &status));
    OK(MPI_Get_count_c(&status, MPI_INT, &count));
    CHECK(count == MANY);
    OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    OK(MPI_Sendrecv_c(out, 1, kinds[3], right, 2, also, MANY, MPI_INT, left, 2, MPI_COMM_WORLD,
                      &status));
    OK(MPI_Get_elements_c(&status, MPI_INT, &count));
    CHECK(count == 3);
    add(in, sizeof(in));
    add(also, sizeof(also));
    OK(MPI_Isend_c(out, 3, MPI_INT, right, 3, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Mprobe(left, 3, MPI_COMM_WORLD, &message, &status));
    OK(MPI_Mrecv_c(in, 3, MPI_INT, &message, &status));
    OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    OK(MPI_Isendrecv_c(out, MANY, MPI_INT, left, 4, also, MANY, MPI_INT, right, 4, MPI_COMM_WORLD,
                       &requests[0]));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    OK(MPI_Send_init_c(out, MANY, MPI_INT, right, 5, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Recv_init_c(in, MANY, MPI_INT, left, 5, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Startall(2, requests));
    usleep(200);
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    add(in, sizeof(in));
    add(also, sizeof(also));
    /* A count beyond int, of an empty type. */
    MPI_Datatype nothing;
    OK(MPI_Type_contiguous(0, MPI_INT, &nothing));
    OK(MPI_Type_commit(&nothing));
    OK(MPI_Sendrecv_c(out, 3000000000LL, nothing, right, 6, in, 3000000000LL, nothing, left, 6,
                      MPI_COMM_WORLD, &status));
    OK(MPI_Type_free(&nothing));
}

static void collectives(int round)
{
    int out[MANY], in[MANY], *all = malloc(sizeof(int) * MANY * (size_t)size);
    MPI_Count *counts = malloc(sizeof(MPI_Count) * (size_t)size);
    MPI_Aint *places = malloc(sizeof(MPI_Aint) * (size_t)size);
    MPI_Request request;
    for (int i = 0; i < MANY; i++)
        out[i] = round + rank * 3 + i + 1;
    for (int i = 0; i < size; i++) {
        counts[i] = MANY - i;
        places[i] = (MPI_Aint)MANY * i;
    }
    memset(all, 0, sizeof(int) * MANY * (size_t)size);
    OK(MPI_Allreduce_c(out, in, MANY, MPI_INT, product, MPI_COMM_WORLD));
    add(in, sizeof(in));
    OK(MPI_Allgatherv_c(out, MANY - rank, MPI_INT, all, counts, places, MPI_INT, MPI_COMM_WORLD));
    add(all, sizeof(int) * MANY * (size_t)size);
    OK(MPI_Ibcast_c(in, MANY, MPI_INT, round % size, MPI_COMM_WORLD, &request));
    usleep(200);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Ireduce_scatter_block_c(all, in, MANY, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    add(in, sizeof(in));
    free(all);
    free(counts);
    free(places);
}

static void windows_and_files(int round)
{
    int out = round * 5 + rank, old = 0, back[2] = {0};
    MPI_Request request;
    OK(MPI_Win_fence(0, window));
    OK(MPI_Put_c(&out, 1, MPI_INT, right, 1, 1, MPI_INT, window));
    OK(MPI_Accumulate_c(&out, 1, MPI_INT, left, 2, 1, MPI_INT, MPI_SUM, window));
    OK(MPI_Win_fence(0, window));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, window));
    OK(MPI_Rget_c(&old, 1, MPI_INT, right, 1, 1, MPI_INT, window, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_unlock(right, window));
    add(&old, sizeof(old));
    add(&cells[2], sizeof(int));
    OK(MPI_File_write_at_all_c(file, 8 * rank, &out, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_iwrite_at_c(file, 8 * rank + 4, &old, 1, MPI_INT, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_c(file, 8 * rank, back, 2, MPI_INT, MPI_STATUS_IGNORE));
    add(back, sizeof(back));
}

static size_t available_memory(void)
{
    char line[256];
    size_t kilobytes = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    CHECK(file != NULL);
    while (kilobytes == 0 && fgets(line, sizeof(line), file) != NULL)
        sscanf(line, "MemAvailable: %zu kB", &kilobytes);
    fclose(file);
    return kilobytes * 1024;
}

/* Exchanged with this process itself. Its parts lie in the same memory, but for the first and the
 * last one. */
static void exchange_huge(void)
{
    enum { ELEMENTS = 1 << 20, PARTS = 256 };
    const size_t part = ELEMENTS * sizeof(double), all = PARTS * part;
    /* Not both where a cut may come: it would drain the second message, into 2 GiB more. */
    const int ways = getenv("CRYO_RANK_SOCKET") != NULL ? 1 : 2;
    if (available_memory() < all + all / 2)
        return;
    const int shared = memfd_create("large", 0);
    CHECK(shared >= 0 && ftruncate(shared, 3 * (off_t)part) == 0);
    char *place = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(place != MAP_FAILED);
    for (size_t i = 0; i < PARTS; i++) {
        const off_t offset = (off_t)part * (i == 0 ? 0 : i == PARTS - 1 ? 2 : 1);
        CHECK(mmap(place + i * part, part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, shared,
                   offset) != MAP_FAILED);
    }
    double *first = (double *)place, *last = (double *)(place + all) - 1;
    MPI_Datatype type;
    MPI_Status status;
    MPI_Request request;
    OK(MPI_Type_contiguous(ELEMENTS, MPI_DOUBLE, &type));
    OK(MPI_Type_commit(&type));
    for (int i = 0; i < ways; i++) {
        MPI_Count count = -1;
        *first = 1.5 + i;
        *last = 2.5 + i;
        if (i == 0) {
            OK(MPI_Sendrecv_replace(place, PARTS, type, rank, 7, rank, 7, MPI_COMM_WORLD, &status));
        } else {
            OK(MPI_Isendrecv_replace(place, PARTS, type, rank, 8, rank, 8, MPI_COMM_WORLD,
                                     &request));
            OK(MPI_Wait(&request, &status));
        }
        OK(MPI_Get_elements_x(&status, MPI_DOUBLE, &count));
        CHECK(count == (MPI_Count)PARTS * ELEMENTS && *first == 1.5 + i && *last == 2.5 + i);
    }
    OK(MPI_Type_free(&type));
    munmap(place, all);
    close(shared);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 20;
    begin_ring(&argc, &argv);
    make();
    if (argc > 2 && rank == 0)
        exchange_huge();
    for (int round = 0; round < rounds; round++) {
        look(round);
        messages(round);
        collectives(round);
        windows_and_files(round);
    }
    for (int i = 0; i < KINDS; i++)
        OK(MPI_Type_free(&kinds[i]));
    OK(MPI_Op_free(&product));
    OK(MPI_Win_free(&window));
    OK(MPI_File_close(&file));
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
