/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks with children that fork() has made: a helper that answers, one that is to be killed, and
 * one that has ended and is not waited for. After a restart they are known by the ids that they
 * had.
 *
 *     children ROUNDS         children are made before MPI_Init
 *     children after ROUNDS   after it
 *     children pauses         after it; three rounds, with a pause after the first two
 *     children window         after a window in shared memory is made; with one pause
 */
#include "pause.h"
#include "ring.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

struct answer {
    int round;
    pid_t own, parent;
};

/* Of the agent; null natively. */
extern const void *const cryo_agent_interface __attribute__((weak));

static int question, reply; /* pipes to the helper, and from it */
static pid_t self, helper, sleeper, ended, caller;

/* Runs in the helper. */
static void answer_until_end(int from, int to, int status)
{
    struct answer answer;
    while (read(from, &answer.round, sizeof(answer.round)) == (ssize_t)sizeof(answer.round)) {
        answer.own = getpid();
        answer.parent = getppid();
        if (write(to, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
            _exit(1);
    }
    _exit(status);
}

/* A child may put what it likes in place of a descriptor that it has of the MPI library. */
static int in_place_of_highest(int fd)
{
    int highest = 65535;
    while (highest > fd && fcntl(highest, F_GETFD) < 0)
        highest--;
    CHECK(dup2(fd, highest) == highest);
    return highest;
}

static void make_children(void)
{
    int there[2], back[2];
    self = getpid();
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    question = there[1];
    reply = back[0];
    fflush(NULL);
    CHECK((helper = fork()) >= 0);
    if (helper == 0) {
        close(question);
        close(reply);
        answer_until_end(there[0], in_place_of_highest(back[1]), 7);
    }
    close(there[0]);
    close(back[1]);
    CHECK((sleeper = fork()) >= 0);
    if (sleeper == 0) {
        close(question);
        close(reply);
        for (;;)
            pause();
    }
    CHECK((ended = fork()) >= 0);
    if (ended == 0)
        _exit(90);
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)ended, &info, WEXITED | WNOWAIT) == 0);
}

static void know_children(int round)
{
    struct answer answer;
    CHECK(getpid() == self);
    CHECK(kill(helper, 0) == 0 && kill(sleeper, 0) == 0);
    CHECK(waitpid(helper, NULL, WNOHANG) == 0 && waitpid(sleeper, NULL, WNOHANG) == 0);
    CHECK(write(question, &round, sizeof(round)) == (ssize_t)sizeof(round));
    CHECK(read(reply, &answer, sizeof(answer)) == (ssize_t)sizeof(answer));
    CHECK(answer.round == round && answer.own == helper && answer.parent == self);
}

/* A child that calls MPI, which it must not: natively, what comes of that is not known. */
static void make_caller(void)
{
    sigset_t told, before;
    int number = 0;
    sigemptyset(&told);
    sigaddset(&told, SIGUSR1);
    sigprocmask(SIG_BLOCK, &told, &before);
    fflush(NULL);
    CHECK((caller = fork()) >= 0);
    if (caller != 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        return;
    }
    sigwait(&told, &number);
    MPI_Comm_size(MPI_COMM_WORLD, &number);
    _exit(0);
}

static void let_caller_call(void)
{
    int status;
    CHECK(kill(caller, SIGUSR1) == 0 && waitpid(caller, &status, 0) == caller);
    if (&cryo_agent_interface != NULL)
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1); /* it has no library any more */
}

static unsigned long long collect(pid_t child, unsigned long long sum)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return mix(sum, &status, sizeof(status));
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "pauses";
    const int pauses = strcmp(how, "pauses") == 0 ? 2 : strcmp(how, "window") == 0 ? 1 : 0;
    const int rounds = pauses > 0 ? 3 : atoi(argv[argc - 1]);
    const int early = argc == 2 && pauses == 0;
    unsigned long long sum = 14695981039346656037ULL;
    MPI_Win window = MPI_WIN_NULL;
    void *memory;
    if (early)
        make_children();
    begin_ring(&argc, &argv);
    if (pauses == 1)
        OK(MPI_Win_allocate_shared(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    if (!early)
        make_children();
    if (pauses == 2)
        make_caller();
    for (int round = 0; round < rounds; round++) {
        int value = rank + round, all;
        know_children(round);
        OK(MPI_Allreduce(&value, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        sum = mix(sum, &all, sizeof(all));
        if (round < pauses)
            wait_here(rank);
    }
    wait_to_end();
    know_children(rounds);
    if (pauses == 2)
        let_caller_call();
    sum = collect(ended, sum);
    CHECK(kill(sleeper, SIGTERM) == 0);
    sum = collect(sleeper, sum);
    close(question);
    sum = collect(helper, sum);
    CHECK(wait(NULL) == -1);
    printf("%d: %016llx\n", rank, sum);
    if (window != MPI_WIN_NULL)
        OK(MPI_Win_free(&window));
    OK(MPI_Finalize());
    return 0;
}
