// SPDX-License-Identifier: Apache-2.0
// RULE for this file: it runs in ranks, perhaps in a signal handler, in any thread and with any
// library's thread-local storage: raw system calls, and of libc only functions on strings.
#include "coord/rank_end.hpp"

#include "coord/frame.hpp"
#include "coord/leash.hpp"
#include "coord/place.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace cryo::coord {

namespace {

// Longer than the first daemon keeps an answer back; a daemon may be stopped.
constexpr int answer_ms = 3000;

sockaddr_un node_daemon;
long process;     // that expects its end
bool told = true; // atomic; with <atomic> clang wants registers that this file does without

void await_answer(long socket)
{
    pollfd look = {static_cast<int>(socket), POLLIN, 0};
    while (sys::call(SYS_poll, &look, 1, answer_ms) == -EINTR) {
    }
}

} // namespace

void expect_end(const char *const *environment)
{
    __atomic_store_n(&told, true, __ATOMIC_SEQ_CST);
    process = sys::call(SYS_getpid);
    node_daemon.sun_family = AF_UNIX;
    if (is_fenced(environment) &&
        node_socket(environment, node_daemon.sun_path, sizeof(node_daemon.sun_path)))
        __atomic_store_n(&told, false, __ATOMIC_SEQ_CST);
}

void forget_end()
{
    __atomic_store_n(&told, true, __ATOMIC_SEQ_CST);
}

// A daemon that is gone, or takes no connection at once, is not waited for.
void tell_end(Ending how)
{
    if (process != sys::call(SYS_getpid) || __atomic_exchange_n(&told, true, __ATOMIC_SEQ_CST))
        return;
    const long socket =
        sys::call(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sys::failed(socket))
        return;
    FrameHeader header;
    header.kind = FrameKind::ending;
    header.length = sizeof(how);
    char frame[sizeof(header) + sizeof(how)];
    memcpy(frame, &header, sizeof(header));
    memcpy(frame + sizeof(header), &how, sizeof(how));
    if (!sys::failed(sys::call(SYS_connect, socket, &node_daemon, sizeof(node_daemon))) &&
        sys::call(SYS_sendto, socket, static_cast<const char *>(frame), sizeof(frame), MSG_NOSIGNAL,
                  nullptr, 0) == sizeof(frame))
        await_answer(socket);
    sys::call(SYS_close, socket);
}

} // namespace cryo::coord
