// SPDX-License-Identifier: Apache-2.0
#include "parent/forward.hpp"

#include "look/proc.hpp"

#include <csignal>
#include <initializer_list>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::parent {

namespace {

volatile sig_atomic_t child;
volatile sig_atomic_t passes_terminal; // whether signals of our terminal are forwarded
sigset_t before;                       // what was blocked when we began

// The terminal's signals reach the program directly if it is in our process group.
void forward(int signal, siginfo_t *info, void *)
{
    if (info->si_code != SI_KERNEL || passes_terminal != 0)
        pass_on(child, signal, info->si_code, info->si_value);
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

// Whether it leads a session without a terminal.
bool is_apart(pid_t pid)
{
    const Result<std::string> stat = capture::Proc(pid).read("stat");
    const size_t close = stat ? stat->rfind(") ") : std::string::npos;
    if (close == std::string::npos || getsid(pid) != pid)
        return false;
    std::string_view rest = std::string_view(*stat).substr(close + 2);
    constexpr int words_before = 4; // the state, its parent, group and session
    for (int i = 0; i < words_before; i++)
        capture::take_word(rest);
    return capture::take_number(rest) == 0;
}

} // namespace

bool is_passed_on(int signal)
{
    return !is_own(signal);
}

void pass_on(pid_t to, int signal, int code, sigval value)
{
    if (code == SI_QUEUE)
        sigqueue(to, signal, value);
    else
        kill(to, signal);
}

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

void forward_signals(pid_t to, bool daemons_apart)
{
    child = to;
    passes_terminal = getpgid(to) != getpgrp() && !(daemons_apart && is_apart(to)) ? 1 : 0;
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

} // namespace cryo::parent
