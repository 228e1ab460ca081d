// SPDX-License-Identifier: Apache-2.0
// A descriptor on which another part of Cryo waits for input: the checkpoint signal announces it,
// too, so that a rank of an MPI job needs neither a thread nor a signal of its own.
#include "agent/agent.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <fcntl.h>
#include <poll.h>

namespace cryo::agent {

namespace {

struct Watched {
    std::atomic<int32_t> fd = 0; // number + 1, 0: none
    void (*arrived)(void *) = nullptr;
    void *argument = nullptr;
};

constinit Watched watched;

} // namespace

int watch_fd(int fd, void (*arrived)(void *), void *argument)
{
    watched.fd.store(0);
    if (fd < 0)
        return 0;
    if (state.signal == 0)
        return -EPERM; // no agent has begun
    watched.arrived = arrived;
    watched.argument = argument;
    watched.fd.store(fd + 1);
    f_owner_ex owner = {F_OWNER_PID, static_cast<int>(sys::call(SYS_getpid))};
    long result = sys::call(SYS_fcntl, fd, F_SETSIG, state.signal);
    if (!sys::failed(result))
        result = sys::call(SYS_fcntl, fd, F_SETOWN_EX, &owner);
    if (!sys::failed(result))
        result = sys::call(SYS_fcntl, fd, F_GETFL);
    if (!sys::failed(result))
        result = sys::call(SYS_fcntl, fd, F_SETFL, result | O_ASYNC);
    if (sys::failed(result))
        watched.fd.store(0);
    return sys::failed(result) ? static_cast<int>(result) : 0;
}

void renew_watched()
{
    if (const int32_t fd = watched.fd.load(); fd > 0)
        sys::call(SYS_fcntl, fd - 1, F_SETSIG, state.signal);
}

// In the handler. An image may be taken in the call, so the checkpoint signal is unblocked.
bool tell_arrival(int fd)
{
    if (fd < 0 || watched.fd.load() != fd + 1)
        return false;
    const uint64_t only = uint64_t(1) << (state.signal - 1);
    uint64_t before = 0;
    sys::call(SYS_rt_sigprocmask, SIG_UNBLOCK, &only, &before, sizeof(only));
    watched.arrived(watched.argument);
    sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof(before));
    return true;
}

// An arrival may have raised the signal that Cryo has left.
void look_at_watched()
{
    const int32_t fd = watched.fd.load();
    pollfd look = {fd - 1, POLLIN, 0};
    if (fd > 0 && sys::call(SYS_poll, &look, 1, 0) > 0)
        tell_arrival(fd - 1);
}

// In the restored copy or in a child, the descriptor is gone or belongs to another process.
void forget_watched()
{
    watched.fd.store(0);
}

} // namespace cryo::agent
