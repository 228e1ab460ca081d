// SPDX-License-Identifier: Apache-2.0
// After a restart: the leader waits until no thread runs in the restorer's memory any more, unmaps
// that memory, and opens a new control socket.
#include "agent/callbacks.hpp"
#include "agent/kept_numbers.hpp"
#include "protocol/door.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>

namespace cryo::agent {

namespace {

// Finds "NAME=number" in an environment, which comes byte by byte.
class NumberInEnvironment
{
  public:
    explicit NumberInEnvironment(const char *name) : name_(name) {}

    void take(char byte)
    {
        if (byte == 0) {
            at_ = 0;
            is_other_ = false;
        } else if (is_other_) {
            return;
        } else if (name_[at_] != 0) {
            is_other_ = byte != name_[at_++];
        } else if (byte >= '0' && byte <= '9' && value_ < most_door_filters) {
            value_ = value_ * 10 + (byte - '0');
        }
    }
    int value() const { return value_; } // 0: there is none

  private:
    const char *name_;
    size_t at_ = 0;
    bool is_other_ = false;
    int value_ = 0;
};

// The filters of system calls are those of cr_restart, which has tried them out.
int filters_of_restart()
{
    NumberInEnvironment number("CRYO_FILTERS=");
    const auto fd = static_cast<int>(state.resume.environment) - 1;
    char part[256];
    long n = 0;
    for (int64_t at = 0; fd >= 0; at += n) {
        n = sys::call(SYS_pread64, fd, part, sizeof(part), at);
        if (n <= 0 && n != -EINTR)
            break;
        n = n < 0 ? 0 : n;
        for (long i = 0; i < n; i++)
            number.take(part[i]); // NOLINT: the system call has filled it
    }
    return number.value();
}

} // namespace

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
    forget_kept();
    forget_tracker(false);
    know_filters(filters_of_restart());
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
