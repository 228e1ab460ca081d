// SPDX-License-Identifier: Apache-2.0
#include "forward.hpp"

#include <csignal>
#include <initializer_list>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

volatile sig_atomic_t child;
volatile sig_atomic_t same_group;
sigset_t before; // what was blocked when we began

// The terminal's signals reach the program directly if it is in our process group.
void forward(int signal, siginfo_t *info, void *)
{
    if (info->si_code == SI_KERNEL && same_group != 0)
        return;
    if (info->si_code == SI_QUEUE)
        sigqueue(child, signal, info->si_value);
    else
        kill(child, signal);
}

// Not forwarded: signals of our own faults, those that cannot
// be caught, the terminal's stops, and the end of a child.
bool is_own(int signal)
{
    for (const int own : {SIGKILL, SIGSTOP, SIGCHLD, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
                          SIGSYS, SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU}) {
        if (signal == own)
            return true;
    }
    return signal >= 32 && signal < SIGRTMIN; // those of the C library
}

} // namespace

void hold_signals()
{
    sigset_t held;
    sigfillset(&held);
    for (const int ends : {SIGHUP, SIGINT, SIGQUIT, SIGTERM})
        sigdelset(&held, ends);
    for (int signal = 1; signal <= SIGRTMAX; signal++) {
        if (is_own(signal))
            sigdelset(&held, signal);
    }
    sigprocmask(SIG_BLOCK, &held, &before);
}

void release_signals()
{
    sigprocmask(SIG_SETMASK, &before, nullptr);
}

void forward_signals(pid_t to)
{
    child = to;
    same_group = getpgid(to) == getpgrp() ? 1 : 0;
    for (int signal = 1; signal <= SIGRTMAX; signal++) {
        if (is_own(signal))
            continue;
        struct sigaction action = {};
        action.sa_sigaction = forward;
        action.sa_flags = SA_RESTART | SA_SIGINFO;
        sigaction(signal, &action, nullptr);
    }
    release_signals();
}

int mimic(int wait_status)
{
    if (WIFEXITED(wait_status))
        return WEXITSTATUS(wait_status);
    const int signal = WTERMSIG(wait_status);
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none); // the program's own core is enough
    ::signal(signal, SIG_DFL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal);
    sigprocmask(SIG_UNBLOCK, &only, nullptr);
    raise(signal);
    return 128 + signal;
}
