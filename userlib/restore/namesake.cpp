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
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace cryo::restore {

namespace {

// 0, or −errno. System calls only, so that they are this process's alone, whatever threads of ours
// libc knows.
long become(const Peer &who, std::span<const gid_t> groups)
{
    // Without the privilege it keeps ours, and then it can have no other user either.
    sys::call(SYS_setgroups, groups.size(), groups.data());
    if (sys::call(SYS_getegid) != static_cast<long>(who.gid)) {
        const long done = sys::call(SYS_setresgid, who.gid, who.gid, who.gid);
        if (sys::failed(done))
            return done;
    }
    if (sys::call(SYS_geteuid) != static_cast<long>(who.uid))
        return sys::call(SYS_setresuid, who.uid, who.uid, who.uid);
    return 0;
}

[[noreturn]] void live(int control, const Peer &who, std::span<const gid_t> groups,
                       const Namesake::Deed &deed)
{
    const long became = become(who, groups);
    for (;;) {
        int32_t word = 0;
        const long n = sys::call(SYS_read, control, &word, sizeof(word));
        if (n == -EINTR)
            continue;
        if (n != sizeof(word))
            sys::call(SYS_exit_group, 0); // we have gone
        Namesake::Made made = {-1, -1};
        const auto said = static_cast<int32_t>(sys::failed(became) ? became : deed(word, made));
        const size_t count = made[0] < 0 ? 0 : made[1] < 0 ? 1 : 2;
        if (send_with(control, bytes_of(said), std::span(made.data(), count)) != sizeof(said))
            sys::call(SYS_exit_group, 1); // so that nobody waits for an answer
        for (size_t i = 0; i < count; i++)
            sys::call(SYS_close, made[i]);
    }
}

} // namespace

Result<Namesake> Namesake::make(const Peer &who, const std::vector<gid_t> &groups,
                                const Maker &maker, const Deed &deed)
{
    if (Result<void> free = await_free({who.pid}); !free)
        return free.error();
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return Error::from_errno("making a pair of sockets", errno);
    Namesake made(who, Fd(ends[0]));
    const Fd its(ends[1]);
    // A process of another user may be stopped by that user.
    constexpr timeval patience = {30, 0};
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const long pid = maker.make(who.pid, maker.ids, nullptr);
    if (pid == 0) {
        sys::call(SYS_close, ends[0]);
        live(ends[1], who, groups, deed);
    }
    if (sys::failed(pid))
        return Error::from_errno(fmt::format("making a process with the id {}", who.pid),
                                 static_cast<int>(-pid));
    made.pid_ = static_cast<pid_t>(pid);
    return made;
}

Namesake::Namesake(Namesake &&other) noexcept
    : who_(other.who_), control_(std::move(other.control_)), pid_(std::exchange(other.pid_, 0))
{}

Namesake::~Namesake()
{
    if (pid_ == 0)
        return;
    // Either would do, but one that has another user may be beyond our signals, and a child of ours
    // that was made since may have our end of its socket.
    kill(pid_, SIGKILL);
    control_.reset();
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
