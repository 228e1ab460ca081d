// SPDX-License-Identifier: Apache-2.0
//
// A blocking call that sleeps until all of its data is moved: write(2) into a pipe, send(2),
// recv(2) with MSG_WAITALL. A signal that arrives when a part has been moved ends the call,
// whatever its handler: the kernel returns the size of the part. Many programs do not expect that
// of a descriptor that they know. If the signal was a checkpoint's, the caller goes on with the
// rest:
//
//     return whole(fd, from, size, [=](size_t done) {
//         return real_write(fd, static_cast<const char *>(from) + done, size - done);
//     });
//
// The checkpoint's handler counts such a call in a word that it chooses by the call's first two
// arguments (interrupted_call.cpp). Calls that share a word by chance disturb each other only if
// one of them is cut short otherwise at the same time: it is then tried once more. A time limit of
// the socket begins anew for the rest.
#pragma once

#include "sys/raw.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace cryo::agent {

constexpr size_t cut_words = 64;
extern std::atomic<uint32_t> cut_calls[cut_words];

// `argument`: the address of the data, or what refers to it.
inline std::atomic<uint32_t> &cuts_of(int fd, uintptr_t argument)
{
    const uintptr_t mixed = argument ^ argument >> 6 ^ argument >> 12 ^ static_cast<unsigned>(fd);
    return cut_calls[mixed % cut_words];
}

// Repeats the call for the rest as long as checkpoints cut it short. An error, or the end, ends
// that. The program's next call returns that error, unless it is one that a socket reports only
// once (a reset): then the next call finds the end of the stream.
template <class Call>
[[gnu::noinline, gnu::cold]] ssize_t rest_of(int fd, uintptr_t data, size_t size, size_t done,
                                             Call call)
{
    const int error = errno;
    for (bool cut = true; cut && done < size;) {
        const std::atomic<uint32_t> &cuts = cuts_of(fd, data + done);
        const uint32_t seen = cuts.load(std::memory_order_relaxed);
        const ssize_t more = call(done);
        done += more > 0 ? static_cast<size_t>(more) : 0;
        cut = more > 0 && cuts.load(std::memory_order_relaxed) != seen;
    }
    errno = error;
    return static_cast<ssize_t>(done);
}

// `call` gets the number of bytes that are moved already, and moves those after them. It returns a
// negative number for an error.
template <class Call>
inline ssize_t whole(int fd, const void *data, size_t size, Call call)
{
    const auto at = reinterpret_cast<uintptr_t>(data);
    const std::atomic<uint32_t> &cuts = cuts_of(fd, at);
    const uint32_t seen = cuts.load(std::memory_order_relaxed);
    const ssize_t done = call(0);
    if (done <= 0 || static_cast<size_t>(done) == size ||
        cuts.load(std::memory_order_relaxed) == seen)
        return done;
    return rest_of(fd, at, size, static_cast<size_t>(done), call);
}

// Sends what is left of a vector by `send_part`, one part after the other.
template <class SendPart>
[[gnu::noinline, gnu::cold]] ssize_t rest_of_parts(const iovec *parts, size_t count, ssize_t done,
                                                   SendPart send_part)
{
    const int error = errno;
    auto skipped = static_cast<size_t>(done);
    for (; count > 0; parts++, count--) {
        if (skipped >= parts->iov_len) {
            skipped -= parts->iov_len;
            continue;
        }
        const size_t left = parts->iov_len - skipped;
        const ssize_t more = send_part(static_cast<const char *>(parts->iov_base) + skipped, left);
        done += more > 0 ? more : 0;
        if (more != static_cast<ssize_t>(left))
            break;
        skipped = 0;
    }
    errno = error;
    return done;
}

// As whole(), for a call that refers to its data by `argument`. `rest` sends what is left.
template <class Call, class Rest>
inline ssize_t whole_parts(int fd, const void *argument, Call call, Rest rest)
{
    const std::atomic<uint32_t> &cuts = cuts_of(fd, reinterpret_cast<uintptr_t>(argument));
    const uint32_t seen = cuts.load(std::memory_order_relaxed);
    const ssize_t done = call();
    if (done <= 0 || cuts.load(std::memory_order_relaxed) == seen)
        return done;
    return rest(done);
}

// Calls on sockets that sleep until everything is moved, and may be made again for the rest. The
// kernel tells of each call with MSG_ZEROCOPY.
inline bool sends_whole(int flags)
{
    return (flags & (MSG_DONTWAIT | MSG_ZEROCOPY)) == 0;
}

inline bool receives_whole(int flags)
{
    return (flags & (MSG_WAITALL | MSG_DONTWAIT | MSG_PEEK)) == MSG_WAITALL;
}

// A further call after `done` bytes raises no SIGPIPE: the kernel raises none if a part was sent.
inline int flags_after(size_t done, int flags)
{
    return done != 0 ? flags | MSG_NOSIGNAL : flags;
}

// Otherwise the rest would come from another message.
inline bool is_stream(int fd)
{
    int type = 0;
    socklen_t size = sizeof(type);
    return !sys::failed(sys::call(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &size)) &&
           type == SOCK_STREAM;
}

} // namespace cryo::agent
