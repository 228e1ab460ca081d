// SPDX-License-Identifier: Apache-2.0
// Interposes the C library's clone(): it makes a process as fork() does, but runs none of the
// handlers given to pthread_atfork(3), so the child would not be listening.
#include "agent/init.hpp"
#include "agent/interposed.hpp"
#include "agent/sharers.hpp"

#include <cstdarg>
#include <cstdint>
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

// What a child that has our memory reads is on its own stack: we may be far away by then.
int begin_sharer(void *beginning)
{
    const Beginning own = *static_cast<const Beginning *>(beginning);
    note_sharer(false);
    return own.run(own.argument);
}

int begin_sharer_apart(void *beginning)
{
    const Beginning own = *static_cast<const Beginning *>(beginning);
    note_sharer(true);
    return own.run(own.argument);
}

Beginning *top_of(void *stack)
{
    constexpr uintptr_t alignment = 16;
    const uintptr_t top = reinterpret_cast<uintptr_t>(stack) - sizeof(Beginning);
    return reinterpret_cast<Beginning *>(top / alignment * alignment);
}

bool shares_descriptors(int flags)
{
    return (flags & (CLONE_FILES | CLONE_THREAD)) == CLONE_FILES;
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
    if (run != nullptr && stack != nullptr && shares_descriptors(flags)) {
        Beginning *const top = top_of(stack);
        *top = beginning;
        return real_clone((flags & CLONE_VM) != 0 ? begin_sharer : begin_sharer_apart, top, flags,
                          top, parent_tid, tls, child_tid);
    }
    return real_clone(run, stack, flags, argument, parent_tid, tls, child_tid);
}
