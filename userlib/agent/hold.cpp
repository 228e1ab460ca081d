// SPDX-License-Identifier: Apache-2.0
// The part of a thread's handler between the image and its return to the program: it runs hooks,
// and may be held until all callbacks have ended.
#include "agent/callbacks.hpp"

#include <cerrno>

namespace cryo::agent {

namespace {

constinit std::atomic<cr_hook_fn_t> hooks[CR_NUM_HOOKS];
constinit std::atomic<int32_t> hold_init{CR_HOLD_BOTH};
constinit std::atomic<int32_t> hold_uninit{CR_HOLD_BOTH};

} // namespace

int register_hook(int event, cr_hook_fn_t hook, cr_hook_fn_t *before)
{
    if (self_client() == nullptr)
        return -CR_ENOINIT;
    if (event < 0 || event >= CR_NUM_HOOKS || hook == CR_HOOK_FN_ERROR)
        return -EINVAL;
    *before = hooks[event].exchange(hook);
    return 0;
}

int hold_ctrl(int scope, int flags, int *before)
{
    Client *client = self_client();
    if (client == nullptr)
        return -CR_ENOINIT;
    std::atomic<int32_t> *value = nullptr;
    switch (scope) {
    case CR_HOLD_SCOPE_THREAD:
        value = &client->hold;
        break;
    case CR_HOLD_SCOPE_INIT:
        value = &hold_init;
        break;
    case CR_HOLD_SCOPE_UNINIT:
        value = &hold_uninit;
        break;
    default:
        return -EINVAL;
    }
    if (flags == CR_HOLD_READ)
        *before = value->load();
    else if ((flags & ~CR_HOLD_BOTH) == 0 ||
             (flags == CR_HOLD_DFLT && scope == CR_HOLD_SCOPE_THREAD))
        *before = value->exchange(flags);
    else
        return -EINVAL;
    return 0;
}

void run_hook(const Client *client, int outcome)
{
    if (outcome < 0)
        return;
    int event = outcome > 0 ? CR_HOOK_RSTRT_SIGNAL_CONTEXT : CR_HOOK_CONT_SIGNAL_CONTEXT;
    if (client == nullptr)
        event += CR_HOOK_CONT_NO_CALLBACKS - CR_HOOK_CONT_SIGNAL_CONTEXT;
    else if (client->thread_context)
        event += CR_HOOK_CONT_THREAD_CONTEXT - CR_HOOK_CONT_SIGNAL_CONTEXT;
    if (cr_hook_fn_t hook = hooks[event].load(); hook != nullptr)
        hook(static_cast<cr_hook_event_t>(event));
}

// After a failed checkpoint no thread is held.
bool is_held(const Client *client, int outcome)
{
    if (outcome < 0)
        return false;
    int hold = client != nullptr ? client->hold.load() : hold_uninit.load();
    if (hold == CR_HOLD_DFLT)
        hold = hold_init.load();
    return (hold & (outcome > 0 ? CR_HOLD_RSTRT : CR_HOLD_CONT)) != 0;
}

} // namespace cryo::agent
