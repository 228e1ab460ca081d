// SPDX-License-Identifier: Apache-2.0
//
// The functions of the C library in front of which the preloaded library stands. None of them is
// called often by any program, or is called to wait, or is a system call beside which looking into
// a table or at a word costs nothing; what is hot is left alone.
#pragma once

#include "agent/agent.hpp"

#define CRYO_INTERPOSED [[gnu::visibility("default")]]

namespace cryo::agent {

// Looks up what is behind us; once, before the program has threads.
void find_real_signal_functions();
void find_real_descriptor_functions();
void find_real_wait_functions();
void find_real_socket_functions();
void find_real_exec_functions();
void find_real_ipc_functions();
void find_real_memory_functions();
void find_real_syscall();
void find_real_clone();

} // namespace cryo::agent
