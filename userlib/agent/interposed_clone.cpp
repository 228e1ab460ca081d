// SPDX-License-Identifier: Apache-2.0
// Interposes the C library's clone(): it makes a process as fork() does, but runs none of the
// handlers given to pthread_atfork(3), so the child would not be listening.
#include "agent/init.hpp"
#include "agent/interposed.hpp"

#include <cstdarg>
#include <dlfcn.h>
#include <sched.h>

namespace cryo::agent {

namespace {

int (*real_clone)(int (*)(void *), void *, int, void *, ...);

struct Beginning {
    int (*run)(void *);
    void *argument;
};

// Runs on the stack that the program gave; reads the child's copy of the parent's memory.
int begin_child(void *beginning)
{
    const Beginning own = *static_cast<const Beginning *>(beginning);
    after_fork_in_child();
    return own.run(own.argument);
}

// False for a thread, and for a child that shares our memory or descriptors: these have no control
// socket of their own.
bool makes_process(int flags)
{
    return (flags & (CLONE_VM | CLONE_FILES | CLONE_THREAD)) == 0;
}

} // namespace

void find_real_clone()
{
    real_clone = reinterpret_cast<decltype(real_clone)>(dlsym(RTLD_NEXT, "clone"));
}

} // namespace cryo::agent

extern "C" CRYO_INTERPOSED int clone(int (*run)(void *), void *stack, int flags, void *argument,
                                     ...) noexcept
{
    using namespace cryo::agent;
    va_list more;
    va_start(more, argument);
    auto *parent_tid = va_arg(more, pid_t *);
    auto *tls = va_arg(more, void *);
    auto *child_tid = va_arg(more, pid_t *);
    va_end(more);
    if (real_clone == nullptr)
        find_real_clone();
    Beginning beginning = {run, argument};
    if (run != nullptr && stack != nullptr && makes_process(flags))
        return real_clone(begin_child, stack, flags, &beginning, parent_tid, tls, child_tid);
    return real_clone(run, stack, flags, argument, parent_tid, tls, child_tid);
}
