// SPDX-License-Identifier: Apache-2.0
// Signals between members: one pending in a child, sent by its parent; a stopped child; SIGCHLD.
#include "probe.h"

static volatile sig_atomic_t children;

static void on_child(int number)
{
    (void)number;
    children++;
}

static void child(void)
{
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    probe_await_check();
    siginfo_t info;
    const struct timespec now = {0};
    PROBE_SABOTAGE("pending", sigtimedwait(&usr1, &info, &now));
    probe_equal("signal pending in the child", SIGUSR1, sigtimedwait(&usr1, &info, &now));
    probe_equal("value that came along", 5, info.si_value.sival_int);
    probe_equal("sender", getppid(), info.si_pid);
}

static void stopped_child(void)
{
    raise(SIGSTOP);
    probe_await_check();
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART};
    PROBE_TRY(sigaction(SIGCHLD, &action, NULL));
    do {
        int status;
        const pid_t member = probe_fork(child);
        // The child is waiting for its check by now, so the signal is already blocked.
        PROBE_TRY(sigqueue(member, SIGUSR1, (union sigval){.sival_int = 5}));
        const pid_t stopped = PROBE_TRY(fork());
        if (stopped == 0) {
            stopped_child();
            _exit(0);
        }
        probe_equal("stop of a child", stopped, waitpid(stopped, &status, WUNTRACED));
        probe_ready();
        probe_reap("child with a pending signal", member);
        probe_equal("waiting for the stopped child", 0, waitpid(stopped, &status, WNOHANG));
        PROBE_TRY(kill(stopped, SIGCONT));
        probe_reap("child that was stopped", stopped);
        probe_true("SIGCHLD", children > 0);
        children = 0;
    } while (probe_more());
    return probe_pass();
}
