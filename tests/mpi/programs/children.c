/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks with children that fork() has made: a helper that answers, one that is to be killed, and
 * one that has ended and is not waited for. After a restart they are known by the ids that they
 * had. Runs as many rounds as the first argument says; 0: three, with a pause after the first two,
 * and children that are made after MPI_Init, which ranks that are saved as a job must not have. */
#include "pause.h"
#include "ring.h"

#include <signal.h>
#include <sys/wait.h>

struct answer {
    int round;
    pid_t own, parent;
};

static int question, reply; /* pipes to the helper, and from it */
static pid_t self, helper, sleeper, ended;

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
        answer_until_end(there[0], back[1], 7);
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

static unsigned long long collect(pid_t child, unsigned long long sum)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return mix(sum, &status, sizeof(status));
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 0;
    unsigned long long sum = 14695981039346656037ULL;
    if (rounds > 0)
        make_children();
    begin_ring(&argc, &argv);
    if (rounds == 0)
        make_children();
    for (int round = 0; round < (rounds > 0 ? rounds : 3); round++) {
        int value = rank + round, all;
        know_children(round);
        OK(MPI_Allreduce(&value, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        sum = mix(sum, &all, sizeof(all));
        if (rounds == 0 && round < 2)
            wait_here(rank);
    }
    wait_to_end();
    know_children(rounds);
    sum = collect(ended, sum);
    CHECK(kill(sleeper, SIGTERM) == 0);
    sum = collect(sleeper, sum);
    close(question);
    sum = collect(helper, sum);
    CHECK(wait(NULL) == -1);
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
