/* SPDX-License-Identifier: Apache-2.0 */
/* Features of Open MPI since 5.0, looked up by name because the headers may be older. With an
 * argument it then sends messages until the file of that name exists. */
#include "check.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct ompi_instance_t *Session;
static char *null_session;
static int (*New_Isendrecv)(const void *, int, MPI_Datatype, int, int, void *, int, MPI_Datatype,
                            int, int, MPI_Comm, MPI_Request *);
static int (*New_Isendrecv_replace)(void *, int, MPI_Datatype, int, int, int, int, MPI_Comm,
                                    MPI_Request *);
static int (*New_Psend_init)(const void *, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm,
                             MPI_Info, MPI_Request *);
static int (*New_Allreduce_init)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm,
                                 MPI_Info, MPI_Request *);
static int (*New_Comm_idup_with_info)(MPI_Comm, MPI_Info, MPI_Comm *, MPI_Request *);
static int (*New_Info_get_string)(MPI_Info, const char *, int *, char *, int *);
static int (*New_Session_init)(MPI_Info, MPI_Errhandler, Session *);
static int (*New_Session_finalize)(Session *);
static int (*New_Group_from_session_pset)(Session, const char *, MPI_Group *);
static int (*New_Comm_create_from_group)(MPI_Group, const char *, MPI_Info, MPI_Errhandler,
                                         MPI_Comm *);

static int rank, size, left, right;

static void *find(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    CHECK(found != NULL);
    return found;
}

static void find_all(void)
{
    New_Isendrecv = find("MPI_Isendrecv");
    New_Isendrecv_replace = find("MPI_Isendrecv_replace");
    New_Psend_init = find("MPI_Psend_init");
    New_Allreduce_init = find("MPI_Allreduce_init");
    New_Comm_idup_with_info = find("MPI_Comm_idup_with_info");
    New_Info_get_string = find("MPI_Info_get_string");
    New_Session_init = find("MPI_Session_init");
    New_Session_finalize = find("MPI_Session_finalize");
    New_Group_from_session_pset = find("MPI_Group_from_session_pset");
    New_Comm_create_from_group = find("MPI_Comm_create_from_group");
    null_session = find("ompi_mpi_instance_null");
}

static void exchange(int round)
{
    int pairs[2 * 1000], got[1000] = {0}, both[2] = {rank, round};
    MPI_Datatype every_second;
    MPI_Request request[2];
    MPI_Status status;
    int count;
    for (int i = 0; i < 2000; i++)
        pairs[i] = rank * 10000 + round + i;
    CHECK(MPI_Type_vector(1000, 1, 2, MPI_INT, &every_second) == 0);
    CHECK(MPI_Type_commit(&every_second) == 0);
    CHECK(New_Isendrecv(pairs, 1, every_second, right, 5, got, 1000, MPI_INT, left, 5,
                        MPI_COMM_WORLD, &request[0]) == 0);
    CHECK(MPI_Wait(&request[0], &status) == 0);
    memset(pairs, 0, sizeof(pairs));
    CHECK(MPI_Get_count(&status, MPI_INT, &count) == 0 && count == 1000);
    CHECK(status.MPI_SOURCE == left && status.MPI_TAG == 5);
    for (int i = 0; i < 1000; i++)
        CHECK(got[i] == left * 10000 + round + 2 * i);
    CHECK(New_Isendrecv_replace(both, 2, MPI_INT, left, 6, right, 6, MPI_COMM_WORLD, &request[0]) ==
          0);
    CHECK(New_Isendrecv(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, got, 1, MPI_INT, MPI_PROC_NULL, 0,
                        MPI_COMM_WORLD, &request[1]) == 0);
    CHECK(MPI_Waitall(2, request, MPI_STATUSES_IGNORE) == 0);
    CHECK(both[0] == right && both[1] == round);
    CHECK(MPI_Type_free(&every_second) == 0);
}

static void information(void)
{
    MPI_Info info;
    char value[20] = "";
    int length = sizeof(value), flag = 0;
    CHECK(MPI_Info_create(&info) == 0 && MPI_Info_set(info, "key", "what it says") == 0);
    CHECK(New_Info_get_string(info, "key", &length, value, &flag) == 0);
    CHECK(flag && strcmp(value, "what it says") == 0 && length == 13);
    MPI_Comm copy;
    MPI_Request request;
    int sum;
    CHECK(New_Comm_idup_with_info(MPI_COMM_WORLD, info, &copy, &request) == 0);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == 0);
    CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, copy) == 0 &&
          sum == size * (size - 1) / 2);
    CHECK(MPI_Comm_free(&copy) == 0 && MPI_Info_free(&info) == 0);
}

/* A partitioned send that is never started, and that no rank would receive. */
static void partitions(void)
{
    static int value;
    static MPI_Request request;
    CHECK(New_Psend_init(&value, 1, 1, MPI_INT, right, 7, MPI_COMM_WORLD, MPI_INFO_NULL,
                         &request) == 0);
}

/* A restart could not recreate it. */
static void freed(void)
{
    static int value, sum;
    static MPI_Request request;
    MPI_Comm copy;
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &copy) == 0);
    CHECK(New_Allreduce_init(&value, &sum, 1, MPI_INT, MPI_SUM, copy, MPI_INFO_NULL, &request) ==
          0);
    CHECK(MPI_Comm_free(&copy) == 0);
}

static void collective(void)
{
    int value = 0, sum = 0;
    MPI_Request request;
    CHECK(New_Allreduce_init(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                             &request) == 0);
    for (int round = 0; round < 3; round++) {
        value = rank + round;
        CHECK(MPI_Start(&request) == 0 && MPI_Wait(&request, MPI_STATUS_IGNORE) == 0);
        CHECK(sum == size * (size - 1) / 2 + size * round);
    }
    CHECK(MPI_Request_free(&request) == 0);
}

static void sessions(void)
{
    Session session;
    MPI_Group group;
    MPI_Comm comm;
    int sum = 0;
    CHECK(New_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == 0);
    CHECK(New_Group_from_session_pset(session, "mpi://WORLD", &group) == 0);
    CHECK(New_Comm_create_from_group(group, "newer", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == 0);
    CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm) == 0);
    CHECK(sum == size * (size - 1) / 2);
    CHECK(MPI_Comm_free(&comm) == 0 && MPI_Group_free(&group) == 0);
    CHECK(New_Session_finalize(&session) == 0);
    CHECK((char *)session == null_session);
}

int main(int argc, char **argv)
{
    find_all();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    exchange(0);
    information();
    if (argc < 3) {
        collective();
        sessions();
    } else if (strcmp(argv[2], "partitions") == 0)
        partitions();
    else if (strcmp(argv[2], "freed") == 0)
        freed();
    else if (strcmp(argv[2], "sessions") == 0)
        sessions();
    for (int round = 0, stop = 0; argc > 1 && !stop; round++) {
        exchange(round);
        stop = access(argv[1], F_OK) == 0;
        CHECK(MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD) == 0);
    }
    printf("%d: 0123456789ABCDEF\n", rank);
    MPI_Finalize();
    return 0;
}
