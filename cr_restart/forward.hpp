// SPDX-License-Identifier: Apache-2.0
//
// cr_restart stands for the process: signals that are meant for it are passed on, and its end is
// ours.
//
//     forward_signals(pid);
//     waitpid(pid, &status, 0);
//     return mimic(status);
#pragma once

#include <sys/types.h>

void forward_signals(pid_t to);
int mimic(int wait_status);
