// SPDX-License-Identifier: Apache-2.0
// Functions of the C library that execute another program, in front of which Cryo stands: a
// checkpoint signal that is under way when the kernel sets all actions back to their defaults would
// end the process. It is blocked from before the call on; the agent of the new program unblocks it.
// A program in which there is none keeps it blocked.
#include "agent/interposed.hpp"
#include "sys/raw.hpp"

#include <alloca.h>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <dlfcn.h>
#include <unistd.h>

namespace cryo::agent {

namespace {

int (*real_execve)(const char *, char *const *, char *const *);
int (*real_execvpe)(const char *, char *const *, char *const *);
int (*real_fexecve)(int, char *const *, char *const *);
int (*real_execveat)(int, const char *, char *const *, char *const *, int);

// While this lives no checkpoint signal is delivered to the calling thread. Nobody asks a child of
// vfork, which shares our memory, for anything.
class Deaf
{
  public:
    Deaf() : is_(state.signal != 0 && sys::call(SYS_getpid) == state.pid)
    {
        if (real_execve == nullptr)
            find_real_exec_functions();
        if (!is_)
            return;
        const uint64_t only = uint64_t(1) << (state.signal - 1);
        sys::call(SYS_rt_sigprocmask, SIG_BLOCK, &only, &before_, sizeof(only));
    }
    ~Deaf()
    {
        if (is_)
            sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof(before_));
    }
    Deaf(const Deaf &) = delete;
    Deaf &operator=(const Deaf &) = delete;

  private:
    bool is_;
    uint64_t before_ = 0;
};

size_t count_arguments(va_list list)
{
    size_t count = 1;
    while (va_arg(list, char *) != nullptr)
        count++;
    return count;
}

// The first argument is not in the list; behind the last one stands a null.
void collect_arguments(char **to, const char *first, va_list list)
{
    *to = const_cast<char *>(first);
    while (*to != nullptr)
        *++to = va_arg(list, char *);
}

} // namespace

void find_real_exec_functions()
{
    real_execve = reinterpret_cast<decltype(real_execve)>(dlsym(RTLD_NEXT, "execve"));
    real_execvpe = reinterpret_cast<decltype(real_execvpe)>(dlsym(RTLD_NEXT, "execvpe"));
    real_fexecve = reinterpret_cast<decltype(real_fexecve)>(dlsym(RTLD_NEXT, "fexecve"));
    real_execveat = reinterpret_cast<decltype(real_execveat)>(dlsym(RTLD_NEXT, "execveat"));
}

} // namespace cryo::agent

using namespace cryo::agent;

// As an array, on the stack of the function that says this.
#define ARGUMENTS(name, first)                                                                     \
    va_list name##_list;                                                                           \
    va_start(name##_list, first);                                                                  \
    const size_t name##_count = count_arguments(name##_list) + 1;                                  \
    va_end(name##_list);                                                                           \
    char **name = static_cast<char **>(alloca(name##_count * sizeof(char *)));                     \
    va_start(name##_list, first);                                                                  \
    collect_arguments(name, first, name##_list)

extern "C" {

CRYO_INTERPOSED int execve(const char *path, char *const argv[], char *const envp[])
{
    const Deaf deaf;
    return real_execve(path, argv, envp);
}

CRYO_INTERPOSED int execv(const char *path, char *const argv[])
{
    const Deaf deaf;
    return real_execve(path, argv, environ);
}

CRYO_INTERPOSED int execvpe(const char *file, char *const argv[], char *const envp[])
{
    const Deaf deaf;
    return real_execvpe(file, argv, envp);
}

CRYO_INTERPOSED int execvp(const char *file, char *const argv[])
{
    const Deaf deaf;
    return real_execvpe(file, argv, environ);
}

CRYO_INTERPOSED int execl(const char *path, const char *first, ...)
{
    ARGUMENTS(argv, first);
    va_end(argv_list);
    const Deaf deaf;
    return real_execve(path, argv, environ);
}

CRYO_INTERPOSED int execlp(const char *file, const char *first, ...)
{
    ARGUMENTS(argv, first);
    va_end(argv_list);
    const Deaf deaf;
    return real_execvpe(file, argv, environ);
}

CRYO_INTERPOSED int execle(const char *path, const char *first, ...)
{
    ARGUMENTS(argv, first);
    char *const *envp = va_arg(argv_list, char *const *);
    va_end(argv_list);
    const Deaf deaf;
    return real_execve(path, argv, envp);
}

CRYO_INTERPOSED int fexecve(int fd, char *const argv[], char *const envp[])
{
    const Deaf deaf;
    return real_fexecve(fd, argv, envp);
}

CRYO_INTERPOSED int execveat(int fd, const char *path, char *const argv[], char *const envp[],
                             int flags)
{
    const Deaf deaf;
    return real_execveat(fd, path, argv, envp, flags);
}
}
