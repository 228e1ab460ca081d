// SPDX-License-Identifier: Apache-2.0
//
// A call on a socket that may have a time limit (SO_RCVTIMEO, SO_SNDTIMEO). The kernel neither
// restarts such a call after a handler nor reports the time left. The caller therefore keeps a
// SocketWait in its frame; the checkpoint's handler finds it on the stack, above the call's stack
// pointer, and records that the checkpoint ended the call, and when. The caller then waits for the
// rest and calls again:
//
//     return socket_call(fd, receives, ppoll, [&] { return real_recv(fd, to, size, flags); });
//
// Programs that never set a limit skip this: any_socket_limits is false there.
#pragma once

#include "sys/clock.hpp"
#include "sys/raw.hpp"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

namespace cryo::agent {

extern std::atomic<bool> any_socket_limits;

struct SocketUse {
    int option; // the limit that applies
    short events;
    int over; // errno when the limit has passed
};
constexpr SocketUse receives = {SO_RCVTIMEO, POLLIN, EAGAIN};
constexpr SocketUse sends = {SO_SNDTIMEO, POLLOUT, EAGAIN};
constexpr SocketUse connects = {SO_SNDTIMEO, POLLOUT, EINPROGRESS};

class SocketWait
{
  public:
    explicit SocketWait(int fd) : self_(this), fd_(fd), began_(sys::monotonic_ns())
    {
        // The handler's reads are invisible to the compiler.
        asm volatile("" : : "r"(this) : "memory");
    }
    ~SocketWait() { *const_cast<volatile uint64_t *>(&mark_) = 0; }
    SocketWait(const SocketWait &) = delete;
    SocketWait &operator=(const SocketWait &) = delete;

    // The wait whose call on the descriptor was entered with this stack pointer; null: not found.
    static SocketWait *of(int fd, int64_t stack_pointer)
    {
        constexpr int64_t most = 512; // no frame of the C library between the two is larger
        for (int64_t at = (stack_pointer + 7) & ~7; at < stack_pointer + most; at += 8) {
            auto *wait = reinterpret_cast<SocketWait *>(at);
            if (wait->mark_ == known && wait->self_ == wait && wait->fd_ == fd)
                return wait;
        }
        return nullptr;
    }

    // Notes the time of the interruption; and that only the checkpoint caused it.
    void note_interruption() { ended_ = sys::monotonic_ns(); }
    void let_go_on()
    {
        if (ended_ == 0)
            note_interruption();
        goes_on_ = 1;
    }

    bool goes_on() const { return *const_cast<const volatile int *>(&goes_on_) != 0; }

    // The rest of a limit; 0 if it has passed, for a last look.
    int64_t left_of(int64_t limit) const
    {
        const int64_t waited = *const_cast<const volatile int64_t *>(&ended_) - began_;
        return waited < limit ? limit - waited : 0;
    }

  private:
    static constexpr uint64_t known = 0x6b636f736f797263;

    uint64_t mark_ = known;
    SocketWait *const self_;
    const int fd_;
    int goes_on_ = 0;
    const int64_t began_;
    int64_t ended_ = 0;
};

// A socket's limit in nanoseconds, 0: none; −errno if it is not a socket.
inline int64_t socket_limit(int fd, int option)
{
    timeval limit = {};
    socklen_t size = sizeof(limit);
    const long result = sys::call(SYS_getsockopt, fd, SOL_SOCKET, option, &limit, &size);
    return sys::failed(result) ? result
                               : limit.tv_sec * 1'000'000'000 + int64_t(limit.tv_usec) * 1000;
}

inline bool sets_socket_limit(int level, int option)
{
    return level == SOL_SOCKET && (option == SO_RCVTIMEO || option == SO_SNDTIMEO ||
                                   option == SO_RCVTIMEO_NEW || option == SO_SNDTIMEO_NEW);
}

// Makes the call, and repeats it if a checkpoint ended it. `ppoll` waits as ppoll(2) does, whose
// remaining time the kernel reports. Both return −1 and set errno.
template <class Ppoll, class Call>
inline auto socket_call(int fd, const SocketUse &use, Ppoll ppoll, Call call) -> decltype(call())
{
    for (;;) {
        SocketWait wait(fd);
        const auto result = call();
        if (result != -1 || errno != EINTR || !wait.goes_on())
            return result;
        const int64_t limit = socket_limit(fd, use.option);
        if (limit < 0)
            return result;
        if (limit == 0)
            continue; // the limit was removed meanwhile
        const int64_t left = wait.left_of(limit);
        timespec rest = {left / 1'000'000'000, left % 1'000'000'000};
        pollfd waited = {.fd = fd, .events = use.events, .revents = 0};
        const int ready = ppoll(&waited, 1, &rest, nullptr);
        if (ready == 0)
            errno = use.over;
        if (ready <= 0)
            return -1;
    }
}

} // namespace cryo::agent
