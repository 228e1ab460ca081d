/* SPDX-License-Identifier: Apache-2.0 */
/* The process stays as it would be without MPI: descriptor numbers, break, heap, signal mask;
 * closing all descriptors does not close the library's; fork works. Cryo says how much memory it
 * can lend. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void still_works(void)
{
    int one = 1, sum = 0, size;
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == size);
}

static int next_descriptor(void)
{
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
}

static int refused;

static void on_error(MPI_Comm *comm, int *code, ...)
{
    int class;
    CHECK(*comm == MPI_COMM_WORLD || *comm == MPI_COMM_SELF);
    OK(MPI_Error_class(*code, &class));
    refused += class == MPI_ERR_NO_MEM;
}

/* As much as Cryo has for everything. */
static void ask_for_too_much(void)
{
    const MPI_Aint most = (MPI_Aint)64 << 30;
    MPI_Errhandler ours;
    MPI_Win window;
    void *memory;
    OK(MPI_Comm_create_errhandler(on_error, &ours));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, ours));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, ours));
    CHECK(MPI_Alloc_mem(most, MPI_INFO_NULL, &memory) != MPI_SUCCESS && refused == 1);
    CHECK(MPI_Win_allocate(most, 1, MPI_INFO_NULL, MPI_COMM_SELF, &memory, &window) !=
              MPI_SUCCESS &&
          refused == 2);
    OK(MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &memory));
    memset(memory, 1, 1 << 20);
    OK(MPI_Free_mem(memory));
    OK(MPI_Errhandler_free(&ours));
}

int main(int argc, char **argv)
{
    int rank;
    sigset_t before, after;
    void *const small = malloc(100);
    free(small);
    void *const end = sbrk(0);
    const int fd = next_descriptor();
    sigprocmask(SIG_SETMASK, NULL, &before);
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    still_works();
    CHECK(next_descriptor() == fd);
    CHECK(sbrk(0) == end);
    void *const again = malloc(100);
    CHECK(again == small);
    free(again);
    sigprocmask(SIG_SETMASK, NULL, &after);
    CHECK(memcmp(&before, &after, sizeof(before)) == 0);

    for (int i = 3; i < 70000; i++)
        close(i);
    closefrom(3);
    CHECK(close_range(3, ~0U, 0) == 0);
    still_works();
    CHECK(next_descriptor() == 3);

    const int status = system("exit 5");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    const pid_t child = fork();
    if (child == 0) {
        closefrom(3); /* allowed in a child: it closes copies */
        _exit(fcntl(0, F_GETFD) >= 0 ? 6 : 1);
    }
    int how;
    CHECK(waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 6);
    CHECK(waitpid(-1, &how, 0) == -1); /* the library has left no child of this process */
    still_works();
    ask_for_too_much();
    printf("%d: as before\n", rank);
    OK(MPI_Finalize());
    return 0;
}
