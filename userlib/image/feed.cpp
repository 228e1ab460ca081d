// SPDX-License-Identifier: Apache-2.0
//
// ASYNC-SIGNAL-SAFE: this file runs inside stopped processes. Nothing of libc but memcpy and
// memset, which the compiler may call by itself; tests/unit/image checks the undefined symbols.
#include "image/feed.hpp"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "sys/raw.hpp"

namespace cryo::image {

namespace {

// A single call moves at most 2 GiB less a page; asking for more is not an error, just partial.
long write_some(int fd, bool &socket, iovec *pieces, unsigned count)
{
    if (socket) {
        msghdr message{};
        message.msg_iov = pieces;
        message.msg_iovlen = count;
        long n = sys::call(SYS_sendmsg, fd, &message, MSG_NOSIGNAL);
        if (n != -ENOTSOCK)
            return n;
        socket = false;
    }
    return sys::call(SYS_writev, fd, pieces, count);
}

} // namespace

int Feed::write_all(iovec *pieces, unsigned count)
{
    while (count) {
        long n = write_some(fd_, socket_, pieces, count);
        if (n == -EINTR)
            continue;
        if (n == -EAGAIN) {
            pollfd p{fd_, POLLOUT, 0};
            sys::call(SYS_poll, &p, 1, -1);
            continue;
        }
        if (sys::failed(n))
            return failed(int(n));
        auto done = static_cast<size_t>(n);
        while (count && done >= pieces->iov_len) {
            done -= pieces->iov_len;
            pieces++;
            count--;
        }
        if (count) {
            pieces->iov_base = static_cast<uint8_t *>(pieces->iov_base) + done;
            pieces->iov_len -= done;
        }
    }
    return 0;
}

int Feed::send(FrameKind kind, uint32_t a, uint64_t b, uint64_t c, uint64_t d, Bytes payload)
{
    if (error_)
        return error_;
    uint8_t head[kFeedFrame];
    Frame{.kind = kind, .sequence = sequence_++, .a = a, .b = b, .c = c, .d = d}.encode(head);
    iovec pieces[2] = {{head, sizeof head},
                       {const_cast<uint8_t *>(payload.data()), payload.size()}};
    return write_all(pieces, payload.empty() ? 1 : 2);
}

int Feed::begin()
{
    return send(FrameKind::hello, kFeedVersion, kPageSize, 0, 0, {});
}

int Feed::record(RecordType type, uint16_t version, uint16_t flags, Bytes payload)
{
    if (payload.size() > kMaxRecord)
        return failed(-EMSGSIZE);
    records_++;
    return send(FrameKind::record, static_cast<uint32_t>(type), version | uint64_t(flags) << 16,
                payload.size(), 0, payload);
}

int Feed::pages(uint32_t object, uint64_t first_page, const void *memory, uint64_t count)
{
    pages_ += count;
    return send(FrameKind::pages, object, first_page, count, 0,
                {static_cast<const uint8_t *>(memory), count * kPageSize});
}

int Feed::zero(uint32_t object, uint64_t first_page, uint64_t count)
{
    pages_ += count;
    return send(FrameKind::zero, object, first_page, count, 0, {});
}

int Feed::base(uint32_t object, uint64_t first_page, uint64_t count, uint64_t base_page)
{
    pages_ += count;
    return send(FrameKind::base, object, first_page, count, base_page, {});
}

int Feed::end()
{
    return send(FrameKind::end, 0, records_, pages_, 0, {});
}

int Feed::fail(int error_number, std::string_view text)
{
    text = text.substr(0, kFeedText);
    return send(FrameKind::fail, static_cast<uint32_t>(error_number), 0, text.size(), 0,
                as_bytes(text));
}

} // namespace cryo::image
