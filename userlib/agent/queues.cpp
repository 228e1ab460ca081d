// SPDX-License-Identifier: Apache-2.0
// The contents of a POSIX message queue. The kernel cannot show them: messages are received, and
// sent again in the same order. The agent does this inside the program, so that no other process's
// death can lose messages in between.
#include "agent/agent.hpp"
#include "agent/room.hpp"
#include "image/messages.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <fcntl.h>
#include <mqueue.h>
#include <sys/mman.h>
#include <sys/socket.h>

namespace cryo::agent {

namespace {

struct Taken {
    uint8_t *at = nullptr;
    uint64_t room = 0;
    uint64_t size = 0;
};

// Opens the queue anew: nonblocking, and for both directions.
long open_own(int fd)
{
    char path[32] = "/proc/self/fd/";
    char digits[12];
    int n = 0;
    for (int rest = fd; n == 0 || rest > 0; rest /= 10)
        digits[n++] = static_cast<char>('0' + rest % 10);
    char *to = path + sizeof("/proc/self/fd/") - 1;
    while (n > 0)
        *to++ = digits[--n];
    *to = 0;
    return with_room(
        [path] { return sys::call(SYS_openat, AT_FDCWD, path, O_RDWR | O_NONBLOCK | O_CLOEXEC); });
}

long take(int queue, uint64_t longest, Taken &taken)
{
    for (;;) {
        if (taken.room - taken.size < image::kMessageHead + longest)
            return -ENOBUFS;
        uint8_t *head = taken.at + taken.size;
        unsigned priority = 0;
        const long n = sys::call(SYS_mq_timedreceive, queue, head + image::kMessageHead, longest,
                                 &priority, nullptr);
        if (n == -EAGAIN)
            return 0;
        if (sys::failed(n))
            return n;
        image::store_le(head, static_cast<uint64_t>(priority));
        image::store_le(head + 8, static_cast<uint32_t>(n));
        taken.size += image::kMessageHead + static_cast<uint64_t>(n);
    }
}

// An outside sender may have filled the queue in between: then this waits for room.
long put_back(int queue, const Taken &taken)
{
    timespec patience;
    sys::call(SYS_clock_gettime, CLOCK_REALTIME, &patience);
    patience.tv_sec += 5;
    for (uint64_t at = 0; at < taken.size;) {
        const uint8_t *head = taken.at + at;
        const auto length = image::load_le<uint32_t>(head + 8);
        long result = sys::call(SYS_mq_timedsend, queue, head + image::kMessageHead, length,
                                static_cast<unsigned>(image::load_le<uint64_t>(head)), nullptr);
        if (result == -EAGAIN) {
            sys::call(SYS_fcntl, queue, F_SETFL, 0);
            result = sys::call(SYS_mq_timedsend, queue, head + image::kMessageHead, length,
                               static_cast<unsigned>(image::load_le<uint64_t>(head)), &patience);
        }
        if (sys::failed(result))
            return result;
        at += image::kMessageHead + length;
    }
    return 0;
}

long look(int queue, Taken &taken)
{
    mq_attr now;
    long result = sys::call(SYS_mq_getsetattr, queue, nullptr, &now);
    if (sys::failed(result) || now.mq_curmsgs == 0)
        return result;
    const auto longest = static_cast<uint64_t>(now.mq_msgsize);
    taken.room = (static_cast<uint64_t>(now.mq_maxmsg) + 1) * (image::kMessageHead + longest);
    const long at = sys::call(SYS_mmap, nullptr, taken.room, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sys::failed(at))
        return at;
    taken.at = reinterpret_cast<uint8_t *>(at);
    result = take(queue, longest, taken);
    const long back = put_back(queue, taken);
    return sys::failed(result) ? result : back;
}

} // namespace

bool send_queue(int connection, const QueueRequest &request)
{
    Taken taken;
    const long queue = open_own(request.descriptor);
    long result = queue;
    if (!sys::failed(queue)) {
        result = look(static_cast<int>(queue), taken);
        sys::call(SYS_close, queue);
    }
    const uint64_t packets = (taken.size + queue_part - 1) / queue_part;
    const Reply answer = {protocol_magic,
                          protocol_version,
                          Op::queue,
                          sys::failed(result) ? result : 0,
                          sys::failed(result) ? 0 : taken.size,
                          sys::failed(result) ? 0 : packets};
    long sent = send_packet(connection, &answer, sizeof(answer));
    for (uint64_t at = 0; at < taken.size && !sys::failed(result) && !sys::failed(sent);
         at += queue_part)
        sent = send_packet(connection, taken.at + at,
                           taken.size - at < queue_part ? taken.size - at : queue_part);
    if (taken.at != nullptr)
        sys::call(SYS_munmap, taken.at, taken.room);
    return !sys::failed(sent);
}

} // namespace cryo::agent
