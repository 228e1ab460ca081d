// SPDX-License-Identifier: Apache-2.0
#include "restore/namesake.hpp"

#include "base/passing.hpp"
#include "look/former_holders.hpp"
#include "sys/raw.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <span>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace cryo::restore {

namespace {

// System calls only, so that they are this process's alone, whatever threads of ours libc knows.
[[noreturn]] void live(int control, std::span<const gid_t> groups, const Namesake::Deed &deed)
{
    // One that is stopped does not see that the other end of its socket is gone.
    sys::call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
    // Without the privilege it keeps ours, and so will the restored process.
    sys::call(SYS_setgroups, groups.size(), groups.data());
    for (;;) {
        int32_t word = 0;
        const long n = sys::call(SYS_read, control, &word, sizeof(word));
        if (n == -EINTR)
            continue;
        if (n != sizeof(word))
            sys::call(SYS_exit_group, 0); // we have gone
        Namesake::Made made = {-1, -1};
        const auto said = static_cast<int32_t>(deed(word, made));
        const size_t count = made[0] < 0 ? 0 : made[1] < 0 ? 1 : 2;
        if (send_with(control, bytes_of(said), std::span(made.data(), count)) != sizeof(said))
            sys::call(SYS_exit_group, 1); // so that nobody waits for an answer
        for (size_t i = 0; i < count; i++)
            sys::call(SYS_close, made[i]);
    }
}

} // namespace

Result<Namesake> Namesake::make(pid_t wished, const std::vector<gid_t> &groups, const Maker &maker,
                                const Deed &deed)
{
    if (Result<void> free = await_free({wished}); !free)
        return free.error();
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return Error::from_errno("making a pair of sockets", errno);
    Namesake made{Fd(ends[0])};
    const Fd its(ends[1]);
    // Other programs of our user may stop the namesake.
    constexpr timeval patience = {30, 0};
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const long pid = maker.make(wished, maker.ids, nullptr, 0);
    if (pid == 0) {
        sys::call(SYS_close, ends[0]);
        live(ends[1], groups, deed);
    }
    if (sys::failed(pid))
        return Error::from_errno(fmt::format("making a process with the id {}", wished),
                                 static_cast<int>(-pid));
    made.pid_ = static_cast<pid_t>(pid);
    return made;
}

Namesake::Namesake(Namesake &&other) noexcept
    : control_(std::move(other.control_)), pid_(std::exchange(other.pid_, 0))
{}

Namesake::~Namesake()
{
    if (pid_ == 0)
        return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR)
        ;
}

int Namesake::act(int word, std::vector<Fd> &made)
{
    const int32_t asked = word;
    int32_t said = 0;
    if (send_with(control_.get(), bytes_of(asked), {}) == sizeof(asked) &&
        receive_with(control_.get(), room_in(said), made) == sizeof(said))
        return -said;
    control_.reset(); // asked again, it fails at once
    return ECHILD;
}

} // namespace cryo::restore
