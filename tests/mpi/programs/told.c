/* SPDX-License-Identifier: Apache-2.0 */
/* State that a program gives the library without getting a handle: error classes, codes and
 * strings, the buffer for buffered sends, generalized requests; and communicators that are made by
 * some of the members, or in the background. Runs as many rounds as the first argument says. */
#include "ring.h"

#include <string.h>
#include <unistd.h>

static int class, code, queried, released;
static unsigned long long sum = 14695981039346656037ULL;
static char buffer[20000];

static int query(void *state, MPI_Status *status)
{
    queried++;
    MPI_Status_set_elements(status, MPI_INT, *(int *)state);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = *(int *)state;
    status->MPI_TAG = 7;
    return MPI_SUCCESS;
}

static int release(void *state)
{
    (void)state;
    released++;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

static void errors(void)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length, found;
    OK(MPI_Error_string(code, text, &length));
    CHECK(strcmp(text, "a code of the program's") == 0);
    OK(MPI_Error_class(code, &found));
    CHECK(found == class);
    sum = mix(mix(sum, &code, sizeof(code)), text, (size_t)length);
}

static void buffered(int round)
{
    int out = rank * 100 + round, in;
    void *detached;
    int bytes;
    OK(MPI_Bsend(&out, 1, MPI_INT, right, 1, MPI_COMM_WORLD));
    usleep(300);
    OK(MPI_Recv(&in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    sum = mix(sum, &in, sizeof(in));
    if (round % 8 == 7) {
        OK(MPI_Buffer_detach(&detached, &bytes));
        CHECK(detached == buffer && bytes == (int)sizeof(buffer));
        OK(MPI_Buffer_attach(buffer, sizeof(buffer)));
    }
}

static void generalized(int round)
{
    static int state;
    MPI_Request request;
    MPI_Status status;
    int flag, count;
    state = round + 1;
    OK(MPI_Grequest_start(query, release, cancel, &state, &request));
    OK(MPI_Test(&request, &flag, &status));
    CHECK(!flag);
    usleep(300);
    OK(MPI_Grequest_complete(request));
    usleep(300);
    OK(MPI_Wait(&request, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(request == MPI_REQUEST_NULL && count == state && status.MPI_SOURCE == state);
    CHECK(released == round + 1 && queried >= released);
}

/* Ranks 0 and 1 repeatedly make a communicator of their own while the world is duplicated. */
static void communicators(int round)
{
    const int members[] = {1, 0};
    MPI_Comm pair = MPI_COMM_NULL, copy;
    MPI_Request request;
    MPI_Group all, two;
    int all_sum, value = rank + round;
    OK(MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPI_Group_incl(all, 2, members, &two));
    if (rank < 2) {
        if ((round + rank) % 2 == 0)
            usleep(500);
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, two, 5, &pair));
        int place, other;
        OK(MPI_Comm_rank(pair, &place));
        CHECK(place == 1 - rank);
        OK(MPI_Sendrecv(&value, 1, MPI_INT, 1 - place, 2, &other, 1, MPI_INT, 1 - place, 2, pair,
                        MPI_STATUS_IGNORE));
        sum = mix(sum, &other, sizeof(other));
        OK(MPI_Send(&value, 1, MPI_INT, 1 - place, 3, pair));
        usleep(300);
        OK(MPI_Recv(&other, 1, MPI_INT, 1 - place, 3, pair, MPI_STATUS_IGNORE));
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Allreduce(&value, &all_sum, 1, MPI_INT, MPI_SUM, copy));
    sum = mix(sum, &all_sum, sizeof(all_sum));
    if (pair != MPI_COMM_NULL)
        OK(MPI_Comm_free(&pair));
    OK(MPI_Comm_free(&copy));
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&two));
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 20;
    begin_ring(&argc, &argv);
    OK(MPI_Add_error_class(&class));
    OK(MPI_Add_error_code(class, &code));
    OK(MPI_Add_error_string(code, "a code of the program's"));
    OK(MPI_Buffer_attach(buffer, sizeof(buffer)));
    for (int round = 0; round < rounds; round++) {
        errors();
        buffered(round);
        generalized(round);
        communicators(round);
    }
    wait_to_end();
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
