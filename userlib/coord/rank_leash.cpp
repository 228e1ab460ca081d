// SPDX-License-Identifier: Apache-2.0
// RULE for this file: it runs in ranks, perhaps in a signal handler: raw system calls, and of libc
// only functions on strings.
//
// How a rank of a supervised job comes to its end with its node's daemon. The job may be brought
// back when the node has not been heard of for long enough, so a rank that went on there would be a
// second one. A connection on which nothing is ever sent gets SIGKILL as its signal: when its other
// end closes, the kernel ends the rank, whatever signals are blocked and wherever it computes.
#include "coord/leash.hpp"

#include "agent/interface.hpp"
#include "coord/rank_side.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

namespace cryo::coord {

namespace {

constexpr int answer_ms = 60'000; // as for the welcome

bool read_answer(int socket, FrameHeader &answer)
{
    char *at = reinterpret_cast<char *>(&answer);
    for (size_t got = 0; got < sizeof(answer);) {
        pollfd look = {socket, POLLIN, 0};
        const long ready = sys::call(SYS_poll, &look, 1, answer_ms);
        if (ready == -EINTR)
            continue;
        if (ready <= 0)
            return false;
        const long n = sys::call(SYS_recvfrom, socket, at + got, sizeof(answer) - got, MSG_DONTWAIT,
                                 nullptr, nullptr);
        if (n == -EINTR || n == -EAGAIN)
            continue;
        if (n <= 0)
            return false;
        got += static_cast<size_t>(n);
    }
    return true;
}

} // namespace

Leash ask_for_leash(int socket)
{
    FrameHeader request;
    request.kind = FrameKind::leash;
    FrameHeader answer;
    if (sys::call(SYS_sendto, socket, &request, sizeof(request), MSG_NOSIGNAL, nullptr, 0) !=
            sizeof(request) ||
        !read_answer(socket, answer))
        return Leash::refused;
    return answer.kind == FrameKind::leash ? Leash::given : Leash::not_needed;
}

bool wear_leash(int socket)
{
    const long flags = sys::call(SYS_fcntl, socket, F_GETFL);
    if (sys::failed(flags) ||
        sys::failed(sys::call(SYS_fcntl, socket, F_SETOWN, sys::call(SYS_getpid))) ||
        sys::failed(sys::call(SYS_fcntl, socket, F_SETSIG, SIGKILL)) ||
        sys::failed(sys::call(SYS_fcntl, socket, F_SETFL, flags | O_ASYNC)))
        return false;
    // What has ended before is not told again.
    pollfd look = {socket, POLLIN, 0};
    return sys::call(SYS_poll, &look, 1, 0) == 0;
}

bool is_fenced(const char *const *environment)
{
    const char *value = variable(environment, fenced_variable);
    return value != nullptr && strcmp(value, "1") == 0;
}

int RankSide::take_leash(int socket)
{
    if (socket < 0)
        return fail(-socket, "the node's daemon", "takes no second connection");
    if (ask_for_leash(socket) != Leash::given) {
        sys::call(SYS_close, socket);
        return fail(EPIPE, "the node's daemon", "does not watch over this rank");
    }
    leash_ = out_of_the_way(socket);
    if (const agent::Interface *agent =
            &agent::cryo_agent_interface != nullptr ? agent::cryo_agent_interface : nullptr;
        agent != nullptr)
        agent->own_fd(leash_, agent::OwnFdKind::other);
    if (!wear_leash(leash_))
        return fail(EPIPE, "the node's daemon", "has ended");
    put(FrameKind::leash, nullptr, 0);
    return 0;
}

// A rank that nobody can end must not run: it might be here twice.
void RankSide::end_unfenced()
{
    constexpr char what[] = ": under cr_run --recover a rank of which nobody knows must not run, "
                            "and ends\n";
    sys::call(SYS_write, 2, why_, strlen(why_));
    sys::call(SYS_write, 2, what, sizeof(what) - 1);
    sys::call(SYS_kill, sys::call(SYS_getpid), SIGKILL);
}

} // namespace cryo::coord
