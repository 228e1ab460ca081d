// SPDX-License-Identifier: Apache-2.0
#include "capture/session/patience.hpp"

#include "base/clock.hpp"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

namespace cryo::capture {

namespace {

constexpr uint64_t least = 65536; // bytes of progress that restart the limit

// 0: the time is over.
int await_until(int fd, uint64_t end)
{
    pollfd look = {fd, POLLIN, 0};
    int ready;
    do {
        const uint64_t now = now_ns();
        const uint64_t left = end - std::min(end, now);
        ready = poll(&look, 1, static_cast<int>(left / 1'000'000 + (left != 0 ? 1 : 0)));
    } while (ready < 0 && errno == EINTR);
    return ready;
}

} // namespace

void Patience::note(uint64_t bytes)
{
    bytes_ += bytes;
    if (bytes_ >= least)
        begin_anew();
}

bool Patience::await(int fd)
{
    const uint64_t begun = now_ns();
    const bool ready =
        waited_ns_ < limit_ns_ && await_until(fd, begun + limit_ns_ - waited_ns_) != 0;
    waited_ns_ += now_ns() - begun;
    return ready;
}

Result<void> check_deadline(uint64_t deadline_ns)
{
    if (deadline_ns != 0 && now_ns() >= deadline_ns)
        return Error(ETIME, "the checkpoint took longer than --time allows; the program goes on");
    return {};
}

bool await_readable(int fd, uint64_t limit_ns)
{
    return await_until(fd, now_ns() + limit_ns) != 0;
}

void limit_sends(int socket, uint64_t limit_ns)
{
    const timeval limit = {static_cast<time_t>(limit_ns / 1'000'000'000),
                           static_cast<suseconds_t>(limit_ns % 1'000'000'000 / 1000)};
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

} // namespace cryo::capture
