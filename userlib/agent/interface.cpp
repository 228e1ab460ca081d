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
#include <fcntl.h>
#include <poll.h>
#include <time.h>

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

// The id that 0 stands for.
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

// Zero: could not be found out.
long parent_of(long pid)
{
    char path[40] = "/proc/";
    char text[512];
    char digits[24];
    char *end = path + 6;
    int count = 0;
    for (long left = pid; left > 0; left /= 10)
        digits[count++] = static_cast<char>('0' + left % 10);
    while (count > 0)
        *end++ = digits[--count];
    __builtin_memcpy(end, "/stat", 6);
    const long fd = sys::call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    const long size = sys::failed(fd) ? fd : sys::call(SYS_read, fd, text, sizeof(text));
    if (!sys::failed(fd))
        sys::call(SYS_close, fd);
    // "PID (NAME) STATE PARENT": a name may contain anything.
    long at = size;
    while (at > 0 && text[at - 1] != ')')
        at--;
    long parent = 0;
    for (at += 3; at > 3 && at < size && text[at] >= '0' && text[at] <= '9'; at++)
        parent = parent * 10 + (text[at] - '0');
    return parent;
}

bool has_in_it(int scope, long id, long pid)
{
    switch (scope) {
    case CR_SCOPE_PGRP:
        return sys::call(SYS_getpgid, pid) == id;
    case CR_SCOPE_SESS:
        return sys::call(SYS_getsid, pid) == id;
    case CR_SCOPE_TREE:
        while (pid > 0 && pid != id)
            pid = parent_of(pid);
        return pid == id;
    default:
        return pid == id;
    }
}

// Checks that the target exists and may be signalled; the checkpointer finds its processes.
int forward(int scope, int target)
{
    const Client *client = self_client();
    if (client == nullptr || !client->running || client->called)
        return -CR_ENOTCB;
    if (scope < CR_SCOPE_PROC || scope > CR_SCOPE_TREE || target < 0)
        return -EINVAL;
    const long id = target != 0 ? target : own_id(scope);
    if (scope == CR_SCOPE_PROC && id == sys::call(SYS_getpid))
        return 0; // a process is always in its own checkpoint
    const long exists = sys::call(SYS_kill, scope == CR_SCOPE_PGRP ? -id : id, 0);
    if (sys::failed(exists))
        return static_cast<int>(exists);
    if ((round.info.flags & without_requester) != 0 && has_in_it(scope, id, round.info.requester))
        return -EDEADLK;
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

uint32_t rounds()
{
    return round.barrier.load(std::memory_order_acquire);
}

// The handle may be the restored copy's, which is ready at once. Other threads close the gate and
// end rounds without waking this one, so it polls. After a round that was given up there may be
// another one (capture/gather/tries.hpp), or the request has ended.
void await_round(int handle, uint32_t rounds_before)
{
    const Client *client = self_client();
    const bool inside = client != nullptr && client->depth.load() > 0;
    if (!inside && thread_callbacks().count > 0)
        return;
    constexpr timespec soon = {0, 2'000'000};
    pollfd look = {handle, POLLIN, 0};
    while (!(inside && round.gate.load() != 0)) {
        const uint32_t ended = rounds();
        if (ended != rounds_before && round.outcome.load() >= 0)
            return;
        rounds_before = ended;
        timespec limit = soon; // the kernel overwrites it with the rest
        if (sys::call(SYS_ppoll, &look, 1, &limit, nullptr, 0) > 0)
            return;
    }
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
    .rounds = rounds,
    .await_round = await_round,
    .enter_request = enter_request,
    .leave_request = leave_request,
};

} // namespace cryo::agent
