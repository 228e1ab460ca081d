// SPDX-License-Identifier: Apache-2.0
//
// The functions of libcr.h that concern the running program: each asks the agent and turns −errno
// into errno. This is the only place where libcr.h's conventions are known.
#include "agent/init.hpp"
#include "agent/interface.hpp"
#include "libcr/edge.hpp"

#include <cerrno>
#include <sched.h>
#include <unistd.h>

using cryo::libcr::agent;
using cryo::libcr::edge;

namespace cryo::libcr {

int fail(int error)
{
    errno = error;
    return -1;
}

} // namespace cryo::libcr

namespace {

// A library that is loaded late, by dlopen, starts late. A failure cannot be reported here:
// cr_init() reports it.
[[gnu::constructor]] void begin()
{
    static const char inside = 0;
    agent().begin(environ);
    agent().own_library(&inside);
}

} // namespace

extern "C" {

int cr_link_me;

cr_client_id_t cr_init(void)
{
    if (const int begun = agent().begin(environ); begun < 0)
        return edge(begun);
    return edge(agent().init());
}

int cr_inc_persist(void)
{
    return edge(agent().persist(1));
}

int cr_dec_persist(void)
{
    return edge(agent().persist(-1));
}

cr_callback_id_t cr_register_callback(cr_callback_t func, void *arg, int flags)
{
    return edge(agent().register_callback(func, arg, flags));
}

int cr_replace_callback(cr_callback_id_t id, cr_callback_t func, void *arg, int flags)
{
    return edge(agent().replace_callback(id, func, arg, flags));
}

int cr_replace_self(cr_callback_t func, void *arg, int flags)
{
    return edge(agent().replace_self(func, arg, flags));
}

int cr_checkpoint(int flags)
{
    return agent().checkpoint(flags);
}

const struct cr_checkpoint_info *cr_get_checkpoint_info(void)
{
    return agent().checkpoint_info();
}

const struct cr_restart_info *cr_get_restart_info(void)
{
    return agent().restart_info();
}

int cr_restarts(void)
{
    return static_cast<int>(agent().restarts());
}

int cr_forward_checkpoint(cr_scope_t scope, pid_t target)
{
    return edge(agent().forward(scope, target));
}

cr_hook_fn_t cr_register_hook(cr_hook_event_t event, cr_hook_fn_t hook)
{
    cr_hook_fn_t before = nullptr;
    return edge(agent().register_hook(event, hook, &before)) < 0 ? CR_HOOK_FN_ERROR : before;
}

int cr_hold_ctrl(int scope, int flags)
{
    int before = 0;
    return edge(agent().hold_ctrl(scope, flags, &before)) < 0 ? -1 : before;
}

int cr_enter_cs(cr_client_id_t id)
{
    return edge(agent().enter_cs(id, false));
}

int cr_tryenter_cs(cr_client_id_t id)
{
    return edge(agent().enter_cs(id, true));
}

int cr_leave_cs(cr_client_id_t id)
{
    return edge(agent().leave_cs(id));
}

int cr_status(void)
{
    return edge(agent().status());
}

void cr_spinlock_init(cr_spinlock_t *lock)
{
    __atomic_store_n(lock, CR_SPINLOCK_INITIALIZER, __ATOMIC_RELEASE);
}

int cr_spinlock_trylock(cr_spinlock_t *lock)
{
    return __atomic_exchange_n(lock, 1U, __ATOMIC_ACQUIRE) == 0;
}

void cr_spinlock_lock(cr_spinlock_t *lock)
{
    while (!cr_spinlock_trylock(lock)) {
        for (int i = 0; i < 100 && __atomic_load_n(lock, __ATOMIC_RELAXED) != 0; i++)
            __builtin_ia32_pause();
        if (__atomic_load_n(lock, __ATOMIC_RELAXED) != 0)
            sched_yield(); // the owner may wait for this CPU
    }
}

void cr_spinlock_unlock(cr_spinlock_t *lock)
{
    __atomic_store_n(lock, 0U, __ATOMIC_RELEASE);
}

} // extern "C"
