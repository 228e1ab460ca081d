// SPDX-License-Identifier: Apache-2.0
//
// The functions of the C library in front of which the preloaded library stands. None of them is
// called often by any program, or is called to wait, or is a system call beside which looking into
// a table or at a word costs nothing; what is hot is left alone.
#pragma once

#include "agent/agent.hpp"

#include <dlfcn.h>

#define CRYO_INTERPOSED [[gnu::visibility("default")]]

namespace cryo::agent {

// What is behind us.
template <class F>
void find(F &function, const char *name)
{
    function = reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

// Another library's constructor may come before ours after all.
template <class F>
F known_by(F &function, void (*find_all)())
{
    if (__builtin_expect(function == nullptr, 0))
        find_all();
    return function;
}

// Looks up what is behind us; once, before the program has threads.
void find_real_signal_functions();
void find_real_descriptor_functions();
void find_real_wait_functions();
void find_real_socket_functions();
void find_real_exec_functions();
void find_real_shell_functions();
void find_real_ipc_functions();
void find_real_memory_functions();
void find_real_syscall();
void find_real_clone();

// interposed_environment.cpp: what cr_run has put into the environment, once; and whether one lacks
// it (then there is room to be had), and gets it.
struct EnvironmentRoom {
    size_t pointers, bytes; // 0: nothing is to be added
};
void remember_environment(char *const *environment);
void remember_signal(int number);
EnvironmentRoom room_for_environment(char *const *environment);
char *const *add_to_environment(char *const *environment, char **pointers, char *text);

} // namespace cryo::agent

// In a function that executes a program: `environment`, with what cr_run has put there.
#define CRYO_KEPT_ENVIRONMENT(room, environment)                                                   \
    ((room).pointers == 0                                                                          \
         ? (environment)                                                                           \
         : add_to_environment((environment),                                                       \
                              static_cast<char **>(alloca((room).pointers * sizeof(char *))),      \
                              static_cast<char *>(alloca((room).bytes))))
