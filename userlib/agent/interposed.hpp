// SPDX-License-Identifier: Apache-2.0
//
// The functions of the C library that the preloaded library interposes. Each is rarely called, or
// is called to wait, or is a system call so slow that reading a table or one word costs nothing in
// comparison. Hot functions are not interposed.
#pragma once

#include "agent/agent.hpp"

#include <dlfcn.h>

#define CRYO_INTERPOSED [[gnu::visibility("default")]]

namespace cryo::agent {

// Looks up the next definition after this library's.
template <class F>
void find(F &function, const char *name)
{
    function = reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

// Another library's constructor may run before this library's.
template <class F>
F known_by(F &function, void (*find_all)())
{
    if (__builtin_expect(function == nullptr, 0))
        find_all();
    return function;
}

// Functions that look up the next definitions; called once, before the program has threads.
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
void find_real_prctl();

// interposed_prctl.cpp: whether prctl() with these arguments has system calls passed to the program
// (PR_SET_SYSCALL_USER_DISPATCH).
bool passes_calls_on(int option, unsigned long mode);

// interposed_environment.cpp: records once what cr_run has put into the environment; tells whether
// an environment lacks it (and how much room is needed), and adds it.
struct EnvironmentRoom {
    size_t pointers, bytes; // 0: nothing to add
};
void remember_environment(char *const *environment);
void remember_signal(int number);
EnvironmentRoom room_for_environment(char *const *environment);
char *const *add_to_environment(char *const *environment, char **pointers, char *text);
constexpr size_t most_added = 7;     // they come first
bool is_added(const char *variable); // in what add_to_environment() returned

} // namespace cryo::agent

// For functions that execute a program: `environment` with what cr_run has put there.
#define CRYO_KEPT_ENVIRONMENT(room, environment)                                                   \
    ((room).pointers == 0                                                                          \
         ? (environment)                                                                           \
         : add_to_environment((environment),                                                       \
                              static_cast<char **>(alloca((room).pointers * sizeof(char *))),      \
                              static_cast<char *>(alloca((room).bytes))))
