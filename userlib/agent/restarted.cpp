// SPDX-License-Identifier: Apache-2.0
// After a restart: the leader waits until no thread runs in the restorer's memory any more, unmaps
// that memory, and opens a new control socket.
#include "agent/callbacks.hpp"
#include "sys/raw.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>

namespace cryo::agent {

void after_restart()
{
    ResumeInfo &info = state.resume;
    for (;;) {
        const uint32_t left = __atomic_load_n(&info.left, __ATOMIC_ACQUIRE);
        if (left + 1 >= info.expected)
            break;
        sys::call(SYS_futex, &info.left, FUTEX_WAIT_PRIVATE, left, nullptr, 0, 0);
    }
    sys::call(SYS_munmap, info.area, info.area_size);
    renumber_loader_locks();
    forget_tracker(false);
    open_control();
    renew_handles();
    forget_watched();
    state.restarts.fetch_add(1, std::memory_order_release);
    tell_lodger_of_restart();
    if (first_client() != nullptr)
        prepare_sections();
}

namespace {

// A process restored as stopped may be continued only after cr_restart has closed the pipe.
void tell(uint32_t word)
{
    pollfd look = {state.resume.status_fd, POLLOUT, 0};
    sys::call(SYS_poll, &look, 1, 0);
    if ((look.revents & POLLERR) != 0)
        return;
    sys::call(SYS_write, state.resume.status_fd, &word, sizeof(word));
}

} // namespace

void tell_released()
{
    // A program that one of the threads executes must not hold the pipe.
    sys::call(SYS_fcntl, state.resume.status_fd, F_SETFD, FD_CLOEXEC);
    tell(says_released);
}

void tell_alive()
{
    tell(says_alive);
}

void tell_end(int failure)
{
    const auto code = static_cast<uint32_t>(failure);
    if (failure != 0)
        sys::call(SYS_write, state.resume.status_fd, &code, sizeof(code));
    sys::call(SYS_close, state.resume.status_fd);
}

} // namespace cryo::agent
