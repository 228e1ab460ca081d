// SPDX-License-Identifier: Apache-2.0
//
// cr_restart represents the process: it forwards signals
// that are meant for the process, and ends as it ends.
//
//     hold_signals();        // until their target is known; ending signals still end us
//     forward_signals(pid, true);
//     waitpid(pid, &status, 0);
//     return mimic(status);
#pragma once

#include <sys/types.h>

void hold_signals();
void release_signals();
// `daemons_apart`: the signals of our terminal are not for one that leads a session without any.
void forward_signals(pid_t to, bool daemons_apart);
int mimic(int wait_status);
