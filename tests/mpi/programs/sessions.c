/* SPDX-License-Identifier: Apache-2.0 */
/* MPI sessions, looked up by name because the headers may be older than Open MPI 5.0.
 *
 *     sessions alone|before|beside ROUNDS    MPI_Init is not called, or later, or first
 */
#include "check.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define MOST 16

#ifdef MPICH
typedef MPI_Session Session;
#else
typedef struct ompi_instance_t *Session;
#endif
typedef void Handler(Session *, int *, ...);
static Session null_session;
static int (*New_Session_init)(MPI_Info, MPI_Errhandler, Session *);
static int (*New_Session_finalize)(Session *);
static int (*New_Session_get_num_psets)(Session, MPI_Info, int *);
static int (*New_Session_get_nth_pset)(Session, MPI_Info, int, int *, char *);
static int (*New_Session_get_pset_info)(Session, const char *, MPI_Info *);
static int (*New_Session_get_info)(Session, MPI_Info *);
static int (*New_Session_create_errhandler)(Handler *, MPI_Errhandler *);
static int (*New_Session_call_errhandler)(Session, int);
static int (*New_Session_set_errhandler)(Session, MPI_Errhandler);
static int (*New_Session_get_errhandler)(Session, MPI_Errhandler *);
static int (*New_Group_from_session_pset)(Session, const char *, MPI_Group *);
static int (*New_Comm_create_from_group)(MPI_Group, const char *, MPI_Info, MPI_Errhandler,
                                         MPI_Comm *);
static int (*New_Intercomm_create_from_groups)(MPI_Group, int, MPI_Group, int, const char *,
                                               MPI_Info, MPI_Errhandler, MPI_Comm *);

static int rank, size, heard;
static unsigned long long sum;
static Session session, expected;
static MPI_Group everybody, half, other_half;
static MPI_Comm all, some, across;
static MPI_Errhandler ours;

static void *find(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    CHECK(found != NULL);
    return found;
}

static void find_all(void)
{
    New_Session_init = find("MPI_Session_init");
    New_Session_finalize = find("MPI_Session_finalize");
    New_Session_get_num_psets = find("MPI_Session_get_num_psets");
    New_Session_get_nth_pset = find("MPI_Session_get_nth_pset");
    New_Session_get_pset_info = find("MPI_Session_get_pset_info");
    New_Session_get_info = find("MPI_Session_get_info");
    New_Session_create_errhandler = find("MPI_Session_create_errhandler");
    New_Session_set_errhandler = find("MPI_Session_set_errhandler");
    New_Session_call_errhandler = find("MPI_Session_call_errhandler");
    New_Session_get_errhandler = find("MPI_Session_get_errhandler");
    New_Group_from_session_pset = find("MPI_Group_from_session_pset");
    New_Comm_create_from_group = find("MPI_Comm_create_from_group");
    New_Intercomm_create_from_groups = find("MPI_Intercomm_create_from_groups");
#ifdef MPICH
    null_session = MPI_SESSION_NULL;
#else
    null_session = find("ompi_mpi_instance_null");
#endif
}

static void hear(Session *which, int *code, ...)
{
    if (*code == MPI_SUCCESS) /* Open MPI 5.0.7 calls it on success, too */
        return;
    CHECK(*which == expected && *code == MPI_ERR_OTHER);
    heard++;
}

static void has(MPI_Info info, const char *key, const char *wanted)
{
    char value[100] = "";
    int flag = 0;
    OK(MPI_Info_get(info, key, 99, value, &flag));
    CHECK(flag && strcmp(value, wanted) == 0);
}

static void begin(void)
{
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "colour", "green"));
#ifdef MPICH /* 4.0 cannot make any before there is a session */
    OK(New_Session_init(info, MPI_ERRORS_RETURN, &session));
    OK(New_Session_create_errhandler(hear, &ours));
    OK(New_Session_set_errhandler(session, ours));
#else
    OK(New_Session_create_errhandler(hear, &ours));
    OK(New_Session_init(info, ours, &session));
#endif
    OK(MPI_Errhandler_free(&ours));
    OK(MPI_Info_free(&info));
    OK(New_Group_from_session_pset(session, "mpi://WORLD", &everybody));
    OK(MPI_Group_size(everybody, &size));
    OK(MPI_Group_rank(everybody, &rank));
    CHECK(size > 1 && size <= MOST);
    int ranges[2][3] = {{0, size / 2 - 1, 1}, {size / 2, size - 1, 1}};
    const int mine = rank >= size / 2;
    OK(MPI_Group_range_incl(everybody, 1, &ranges[mine], &half));
    OK(MPI_Group_range_incl(everybody, 1, &ranges[!mine], &other_half));
    OK(New_Comm_create_from_group(everybody, "all", MPI_INFO_NULL, MPI_ERRORS_RETURN, &all));
    OK(New_Comm_create_from_group(half, "some", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &some));
    OK(New_Intercomm_create_from_groups(half, 0, other_half, 0, "across", MPI_INFO_NULL,
                                        MPI_ERRORS_RETURN, &across));
}

/* Queries a session and its process sets. */
static void ask(void)
{
    char name[200], number[20];
    int count = 0, length = sizeof(name), found = 0;
    MPI_Info info;
    MPI_Errhandler handler;
    OK(New_Session_get_num_psets(session, MPI_INFO_NULL, &count));
    CHECK(count >= 2);
    for (int i = 0; i < count; i++, length = sizeof(name)) {
        OK(New_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name));
        found += strcmp(name, "mpi://WORLD") == 0 || strcmp(name, "mpi://SELF") == 0;
    }
    CHECK(found == 2);
    snprintf(number, sizeof(number), "%d", size);
    OK(New_Session_get_pset_info(session, "mpi://WORLD", &info));
    has(info, "mpi_size", number);
    OK(MPI_Info_free(&info));
    OK(New_Session_get_info(session, &info));
#ifdef MPICH /* 4.0 has no other key */
    has(info, "thread_level", "MPI_THREAD_MULTIPLE");
#else
    has(info, "colour", "green");
#endif
    OK(MPI_Info_free(&info));
    OK(New_Session_get_errhandler(session, &handler));
    CHECK(handler != MPI_ERRORS_RETURN && handler != MPI_ERRHANDLER_NULL);
    OK(MPI_Errhandler_free(&handler));
    expected = session;
    const int before = heard;
    New_Session_call_errhandler(session, MPI_ERR_OTHER);
    CHECK(heard == before + 1);
    sum = mix(sum, name, strlen(name));
}

static void talk(int round)
{
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    int out[3] = {rank + round, 7, round}, in[3] = {0}, total = -1, best = -1, there = -1, members;
    MPI_Request request;
    OK(MPI_Irecv(in, 3, MPI_INT, left, round % 7, all, &request));
    for (int i = 0; i < (rank + round) % 3 * 5; i++)
        sched_yield();
    OK(MPI_Send(out, 3, MPI_INT, right, round % 7, all));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(in[0] == left + round && in[2] == round);
    OK(MPI_Allreduce(&out[0], &total, 1, MPI_INT, MPI_SUM, all));
    CHECK(total == size * (size - 1) / 2 + size * round);
    OK(MPI_Allreduce(&rank, &best, 1, MPI_INT, MPI_MAX, some));
    OK(MPI_Comm_size(some, &members));
    CHECK(best == (rank < size / 2 ? size / 2 : size) - 1);
    OK(MPI_Allreduce(&rank, &there, 1, MPI_INT, MPI_MAX, across));
    CHECK(there == (rank < size / 2 ? size : size / 2) - 1);
    sum = mix(sum, &total, sizeof(total));
    sum = mix(sum, &there, sizeof(there));
}

/* Short-lived communicators and sessions. */
static void come_and_go(int round)
{
    MPI_Comm comm;
    MPI_Group group;
    Session second;
    char tag[30];
    int got = -1;
    snprintf(tag, sizeof(tag), "round %d", round);
    OK(New_Comm_create_from_group(half, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Allreduce(&round, &got, 1, MPI_INT, MPI_MIN, comm));
    CHECK(got == round);
    OK(MPI_Comm_free(&comm));
    OK(New_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second));
    OK(New_Group_from_session_pset(second, "mpi://SELF", &group));
    OK(MPI_Group_size(group, &got));
    CHECK(got == 1);
    OK(MPI_Group_free(&group));
    OK(New_Session_finalize(&second));
    CHECK(second == null_session);
}

static void finish(void)
{
    OK(MPI_Comm_free(&all));
    OK(MPI_Comm_free(&some));
    OK(MPI_Comm_free(&across));
    OK(MPI_Group_free(&everybody));
    OK(MPI_Group_free(&half));
    OK(MPI_Group_free(&other_half));
    OK(New_Session_finalize(&session));
}

static void world(int round)
{
    int total = 0;
    OK(MPI_Allreduce(&round, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(total == size * round);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    const char *how = argv[1];
    const int rounds = atoi(argv[2]), has_world = strcmp(how, "alone") != 0;
    int flag = -1, level = -1;
    find_all();
    if (strcmp(how, "beside") == 0)
        OK(MPI_Init(&argc, &argv));
    begin();
    OK(MPI_Initialized(&flag));
    CHECK(flag == (strcmp(how, "beside") == 0));
    if (strcmp(how, "before") == 0)
        OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level));
    for (int round = 0; round < rounds; round++) {
        talk(round);
        if (has_world)
            world(round);
        if (round % 10 == 0)
            ask();
        if (round % 25 == 0)
            come_and_go(round);
        if (round == rounds / 2) {
            Session meanwhile; /* MPICH 4.0 crashes in a session made after all have ended */
            OK(New_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &meanwhile));
            finish();
            begin();
            OK(New_Session_finalize(&meanwhile));
        }
    }
    wait_to_end();
    finish();
    if (has_world) {
        OK(MPI_Query_thread(&flag));
#ifdef MPICH /* MPICH has one level for all, the first one's */
        CHECK(flag >= MPI_THREAD_SINGLE);
#else
        CHECK(flag == (strcmp(how, "before") == 0 ? MPI_THREAD_FUNNELED : MPI_THREAD_SINGLE));
#endif
        OK(MPI_Finalize());
    }
    OK(MPI_Finalized(&flag));
    CHECK(flag == has_world);
    printf("%d: %016llX\n", rank, sum);
    return 0;
}
