/* SPDX-License-Identifier: Apache-2.0 */
/* A timer interrupts MPI calls all the time; its handler must find the program's own thread-local
 * storage, dispositions must stay as the program set them, and interrupted system calls of the
 * library must continue. */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

static __thread volatile long ticks, wrong;
static __thread volatile int token = 4711;
static volatile sig_atomic_t users;

static void on_tick(int number, siginfo_t *info, void *context)
{
    if (number != SIGALRM || info == NULL || context == NULL || token != 4711)
        wrong++;
    errno = ENOTTY; /* the program's errno, not the library's */
    ticks++;
}

static void on_user(int number)
{
    users += number == SIGUSR1 && token == 4711;
}

int main(int argc, char **argv)
{
    int rank, size;
    struct sigaction action, found;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_tick;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaddset(&action.sa_mask, SIGUSR2);
    if (sigaction(SIGALRM, &action, NULL) != 0 || signal(SIGUSR1, on_user) != SIG_DFL)
        return 1;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));

    CHECK(sigaction(SIGALRM, NULL, &found) == 0);
    CHECK(found.sa_sigaction == on_tick);
    CHECK((found.sa_flags & SA_SIGINFO) != 0 && (found.sa_flags & SA_RESTART) != 0);
    CHECK(sigismember(&found.sa_mask, SIGUSR2) == 1 && sigismember(&found.sa_mask, SIGUSR1) == 0);
    CHECK(sigaction(SIGUSR1, NULL, &found) == 0 && found.sa_handler == on_user);
    CHECK((found.sa_flags & SA_SIGINFO) == 0);
    CHECK(signal(SIGUSR1, on_user) == on_user);
    for (int number = 1; number < 32; number++) {
        if (number == SIGALRM || number == SIGUSR1)
            continue;
        CHECK(sigaction(number, NULL, &found) == 0);
        CHECK(found.sa_handler == SIG_DFL || found.sa_handler == SIG_IGN);
    }

    const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    long sum = 0;
    for (int i = 0, enough = 0; !enough; i++) { /* ranks leave together */
        int mine = i, got = -1;
        const int my_enough = i >= 3000 && ticks >= 500;
        OK(MPI_Sendrecv(&mine, 1, MPI_INT, right, 1, &got, 1, MPI_INT, left, 1, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
        CHECK(got == mine);
        OK(MPI_Allreduce(&my_enough, &enough, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
        if (i < 3000)
            sum += got;
        if (i % 100 == 0)
            raise(SIGUSR1);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(ticks > 0 && wrong == 0 && users > 0);
    printf("%d: %ld\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
