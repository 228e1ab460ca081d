// SPDX-License-Identifier: Apache-2.0
//
// A command that stands for a program, as cr_restart and the supervisor of cr_run do: it passes on
// the signals that are meant for the program, and ends as it ends.
//
//     hold_signals();        // until their target is known; ending signals still end us
//     forward_signals(pid, true);
//     waitpid(pid, &status, 0);
//     return mimic(status);
#pragma once

#include <csignal>
#include <sys/types.h>

namespace cryo::parent {

void hold_signals();
void release_signals();
// `daemons_apart`: the signals of our terminal are not for one that leads a session without any.
void forward_signals(pid_t to, bool daemons_apart);

// For a caller that reads signals by itself: whether this one is for the program.
bool is_passed_on(int signal);
// `code`: as of siginfo. `to` is a child of the caller that it has not waited for.
void pass_on(pid_t to, int signal, int code, sigval value);

// Returns the exit status, or ends by the signal.
int mimic(int wait_status);

} // namespace cryo::parent
