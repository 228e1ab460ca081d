// SPDX-License-Identifier: Apache-2.0
// The table through which libcr.so.0 reaches the agent (interface.hpp).
#include "agent/interface.hpp"

#include "agent/callbacks.hpp"
#include "agent/client_calls.hpp"
#include "agent/init.hpp"
#include "agent/round.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <climits>

namespace cryo::agent {

namespace {

int change_persist(int by)
{
    Client *client = self_client();
    if (client == nullptr)
        return -CR_ENOINIT;
    const int32_t before = client->persist;
    if ((by > 0 && before == INT_MAX) || (by < 0 && before == 0))
        return -ERANGE;
    client->persist += by;
    return before;
}

// Whom 0 means.
long own_id(int scope)
{
    switch (scope) {
    case CR_SCOPE_PGRP:
        return sys::call(SYS_getpgid, 0);
    case CR_SCOPE_SESS:
        return sys::call(SYS_getsid, 0);
    default:
        return sys::call(SYS_getpid);
    }
}

// That there is somebody whom the caller may save; the checkpointer looks who they are.
int forward(int scope, int target)
{
    const Client *client = self_client();
    if (client == nullptr || !client->running || client->called)
        return -CR_ENOTCB;
    if (scope < CR_SCOPE_PROC || scope > CR_SCOPE_TREE || target < 0)
        return -EINVAL;
    const long id = target != 0 ? target : own_id(scope);
    if (scope == CR_SCOPE_PROC && id == sys::call(SYS_getpid))
        return 0; // it is always in its own checkpoint
    const long exists = sys::call(SYS_kill, scope == CR_SCOPE_PGRP ? -id : id, 0);
    if (sys::failed(exists))
        return static_cast<int>(exists);
    return forward_round(scope, static_cast<int>(id));
}

uint32_t restarts()
{
    return state.restarts.load(std::memory_order_acquire);
}

void resume_interrupted(void *frame)
{
    resume_call(frame);
}

int may_request()
{
    return self_client() == nullptr ? -CR_ENOINIT : 0;
}

} // namespace

constinit const Interface own_interface = {
    .size = sizeof(Interface),
    .begin = begin_agent,
    .own_library = own_library,
    .init = client_init,
    .register_callback = register_callback,
    .replace_callback = replace_callback,
    .replace_self = replace_self,
    .checkpoint = callback_checkpoint,
    .enter_cs = enter_cs,
    .leave_cs = leave_cs,
    .status = client_status,
    .checkpoint_info = checkpoint_info,
    .restart_info = restart_info,
    .register_hook = register_hook,
    .hold_ctrl = hold_ctrl,
    .persist = change_persist,
    .forward = forward,
    .may_request = may_request,
    .own_fd = own_fd,
    .disown_fd = disown_fd,
    .watch_fd = watch_fd,
    .restarts = restarts,
    .set_lodger = set_lodger,
    .resume_call = resume_interrupted,
};

} // namespace cryo::agent
