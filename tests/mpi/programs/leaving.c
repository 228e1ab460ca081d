/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions alone: rank 0 has done its part, and leaves, when CRYO_SCRATCH has a file "leave"; the
 * others work as long as the job is kept from ending. "pid.RANK" says who a rank is; "left" appears
 * when what is done at the exit of rank 0 has been begun. */
#include "check.h"

#include <fcntl.h>
#include <string.h>

static int rank = -1;

static const char *file(const char *name)
{
    static char path[4096];
    const char *directory = getenv("CRYO_SCRATCH");
    CHECK(directory != NULL && strlen(directory) + strlen(name) + 1 < sizeof(path));
    sprintf(path, "%s/%s", directory, name);
    return path;
}

/* Runs last: it was registered before MPI was used. */
static void tell_left(void)
{
    if (rank == 0)
        close(open(file("left"), O_CREAT | O_WRONLY, 0600));
}

static void tell_pid(void)
{
    char name[30];
    snprintf(name, sizeof(name), "pid.%d", rank);
    FILE *told = fopen(file(name), "w");
    CHECK(told != NULL);
    fprintf(told, "%d\n", getpid());
    fclose(told);
}

int main(void)
{
    MPI_Session session;
    MPI_Group everybody;
    MPI_Comm all;
    unsigned long long sum = 0;
    atexit(tell_left);
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &everybody));
    OK(MPI_Comm_create_from_group(everybody, "all", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &all));
    OK(MPI_Group_free(&everybody));
    OK(MPI_Comm_rank(all, &rank));
    tell_pid();
    for (int round = 0; round < 1000; round++) {
        int total = -1;
        OK(MPI_Allreduce(&round, &total, 1, MPI_INT, MPI_SUM, all));
        sum = mix(sum, &total, sizeof(total));
    }
    OK(MPI_Comm_free(&all));
    if (rank == 0) {
        while (access(file("leave"), F_OK) != 0)
            usleep(1000);
    } else {
        wait_to_end();
        printf("%d: %016llX\n", rank, sum);
    }
    OK(MPI_Session_finalize(&session));
    return 0;
}
