// SPDX-License-Identifier: Apache-2.0
//
// cr_restart stands for the process: signals that are meant for it are passed on, and its end is
// ours.
//
//     hold_signals();        // until we know for whom they are; those that end a command still do
//     forward_signals(pid);
//     waitpid(pid, &status, 0);
//     return mimic(status);
#pragma once

#include <sys/types.h>

void hold_signals();
void release_signals();
void forward_signals(pid_t to);
int mimic(int wait_status);
