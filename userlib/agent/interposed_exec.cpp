// SPDX-License-Identifier: Apache-2.0
// Interposes functions of the C library that execute another program: a checkpoint signal that is
// pending when the kernel resets all actions to their defaults would end the process. So the signal
// is blocked from before the call on, and the agent of the new program unblocks it. A program
// without an agent keeps it blocked. What cr_run has put into the environment is passed on
// (interposed_environment.cpp).
#include "agent/deaf.hpp"
#include "agent/interposed.hpp"

#include <alloca.h>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <dlfcn.h>
#include <spawn.h>
#include <unistd.h>

namespace cryo::agent {

namespace {

int (*real_execve)(const char *, char *const *, char *const *);
int (*real_execvpe)(const char *, char *const *, char *const *);
int (*real_fexecve)(int, char *const *, char *const *);
int (*real_execveat)(int, const char *, char *const *, char *const *, int);
using Spawn = int (*)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                      const posix_spawnattr_t *, char *const *, char *const *);
Spawn real_posix_spawn, real_posix_spawnp;

template <class F>
F known(F &function)
{
    return known_by(function, find_real_exec_functions);
}

} // namespace

void find_real_exec_functions()
{
    real_execve = reinterpret_cast<decltype(real_execve)>(dlsym(RTLD_NEXT, "execve"));
    real_execvpe = reinterpret_cast<decltype(real_execvpe)>(dlsym(RTLD_NEXT, "execvpe"));
    real_fexecve = reinterpret_cast<decltype(real_fexecve)>(dlsym(RTLD_NEXT, "fexecve"));
    real_execveat = reinterpret_cast<decltype(real_execveat)>(dlsym(RTLD_NEXT, "execveat"));
    real_posix_spawn = reinterpret_cast<Spawn>(dlsym(RTLD_NEXT, "posix_spawn"));
    real_posix_spawnp = reinterpret_cast<Spawn>(dlsym(RTLD_NEXT, "posix_spawnp"));
}

} // namespace cryo::agent

using namespace cryo::agent;

// Collects the arguments in an array on the calling function's stack. Afterwards `list` is
// positioned at whatever follows the null.
#define COLLECT_ARGUMENTS(first)                                                                   \
    va_list list;                                                                                  \
    va_start(list, first);                                                                         \
    size_t count = 2; /* the first one, and the null at the end */                                 \
    while (va_arg(list, char *) != nullptr)                                                        \
        count++;                                                                                   \
    va_end(list);                                                                                  \
    char **argv = static_cast<char **>(alloca(count * sizeof(char *)));                            \
    argv[0] = const_cast<char *>(first);                                                           \
    va_start(list, first);                                                                         \
    for (size_t i = 1; i < count; i++)                                                             \
    argv[i] = va_arg(list, char *)

extern "C" {

CRYO_INTERPOSED int execve(const char *path, char *const argv[], char *const envp[])
{
    const EnvironmentRoom room = room_for_environment(envp);
    envp = CRYO_KEPT_ENVIRONMENT(room, envp);
    const Deaf deaf;
    return known(real_execve)(path, argv, envp);
}

CRYO_INTERPOSED int execv(const char *path, char *const argv[])
{
    const EnvironmentRoom room = room_for_environment(environ);
    char *const *envp = CRYO_KEPT_ENVIRONMENT(room, environ);
    const Deaf deaf;
    return known(real_execve)(path, argv, envp);
}

CRYO_INTERPOSED int execvpe(const char *file, char *const argv[], char *const envp[])
{
    const EnvironmentRoom room = room_for_environment(envp);
    envp = CRYO_KEPT_ENVIRONMENT(room, envp);
    const Deaf deaf;
    return known(real_execvpe)(file, argv, envp);
}

CRYO_INTERPOSED int execvp(const char *file, char *const argv[])
{
    const EnvironmentRoom room = room_for_environment(environ);
    char *const *envp = CRYO_KEPT_ENVIRONMENT(room, environ);
    const Deaf deaf;
    return known(real_execvpe)(file, argv, envp);
}

CRYO_INTERPOSED int execl(const char *path, const char *first, ...)
{
    COLLECT_ARGUMENTS(first);
    va_end(list);
    const EnvironmentRoom room = room_for_environment(environ);
    char *const *envp = CRYO_KEPT_ENVIRONMENT(room, environ);
    const Deaf deaf;
    return known(real_execve)(path, argv, envp);
}

CRYO_INTERPOSED int execlp(const char *file, const char *first, ...)
{
    COLLECT_ARGUMENTS(first);
    va_end(list);
    const EnvironmentRoom room = room_for_environment(environ);
    char *const *envp = CRYO_KEPT_ENVIRONMENT(room, environ);
    const Deaf deaf;
    return known(real_execvpe)(file, argv, envp);
}

CRYO_INTERPOSED int execle(const char *path, const char *first, ...)
{
    COLLECT_ARGUMENTS(first);
    char *const *envp = va_arg(list, char *const *);
    va_end(list);
    const EnvironmentRoom room = room_for_environment(envp);
    envp = CRYO_KEPT_ENVIRONMENT(room, envp);
    const Deaf deaf;
    return known(real_execve)(path, argv, envp);
}

CRYO_INTERPOSED int fexecve(int fd, char *const argv[], char *const envp[])
{
    const EnvironmentRoom room = room_for_environment(envp);
    envp = CRYO_KEPT_ENVIRONMENT(room, envp);
    const Deaf deaf;
    return known(real_fexecve)(fd, argv, envp);
}

CRYO_INTERPOSED int execveat(int fd, const char *path, char *const argv[], char *const envp[],
                             int flags)
{
    const EnvironmentRoom room = room_for_environment(envp);
    envp = CRYO_KEPT_ENVIRONMENT(room, envp);
    const Deaf deaf;
    return known(real_execveat)(fd, path, argv, envp, flags);
}

CRYO_INTERPOSED int posix_spawn(pid_t *pid, const char *path,
                                const posix_spawn_file_actions_t *actions,
                                const posix_spawnattr_t *attributes, char *const argv[],
                                char *const envp[])
{
    const EnvironmentRoom room = room_for_environment(envp);
    envp = CRYO_KEPT_ENVIRONMENT(room, envp);
    return known(real_posix_spawn)(pid, path, actions, attributes, argv, envp);
}

CRYO_INTERPOSED int posix_spawnp(pid_t *pid, const char *file,
                                 const posix_spawn_file_actions_t *actions,
                                 const posix_spawnattr_t *attributes, char *const argv[],
                                 char *const envp[])
{
    const EnvironmentRoom room = room_for_environment(envp);
    envp = CRYO_KEPT_ENVIRONMENT(room, envp);
    return known(real_posix_spawnp)(pid, file, actions, attributes, argv, envp);
}
}
