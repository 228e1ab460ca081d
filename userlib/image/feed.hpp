// SPDX-License-Identifier: Apache-2.0
//
// Feed sends records and pages out of a stopped process, or its forked child, to the process that
// writes the image (feed_reader.hpp).
//
//     Feed feed(fd);
//     feed.begin();
//     feed.record(Thread{.tid = tid, ...}, scratch);
//     feed.pages(object, address / 4096, memory, count);     // straight from the memory, no copy
//     if (int error = feed.end())                             // −errno of the first failure
//         return error;
//
// Everything here is async-signal-safe: no allocation, no stdio, no locks, no errno, nothing of
// libc but memcpy; a test looks at the symbols. System calls are made directly.
//
// On a pipe whose reader is gone, the kernel raises SIGPIPE besides −EPIPE: the caller ignores it,
// or uses a socket, where it is not raised.
#pragma once

#include <cerrno>
#include <string_view>

#include "image/feed_format.hpp"
#include "image/record_codec.hpp"

struct iovec;

namespace cryo::image {

class Feed
{
  public:
    explicit Feed(int fd) : fd_(fd) {}

    // Each returns 0 or −errno; after the first failure all do nothing and return that one.
    int begin();
    int record(RecordType type, uint16_t version, uint16_t flags, Bytes payload);
    int pages(uint32_t object, uint64_t first_page, const void *memory, uint64_t count);
    int zero(uint32_t object, uint64_t first_page, uint64_t count);
    int base(uint32_t object, uint64_t first_page, uint64_t count, uint64_t base_page);
    int end();
    // Instead of end(): says why there will be no image. The reader reports it to the user.
    int fail(int error_number, std::string_view text);

    // −E2BIG: `scratch` is too small for the record. (Data too long for any scratch is split into
    // several records, as its record type defines.)
    template <class R>
    int record(const R &typed, MutableBytes scratch)
    {
        size_t size = encode(typed, scratch);
        if (!size && encoded_size(typed))
            return failed(-E2BIG);
        return record(R::type, R::version, record_flags<R>(), scratch.first(size));
    }

    uint64_t pages_sent() const { return pages_; }
    int error() const { return error_; }

  private:
    int send(FrameKind kind, uint32_t a, uint64_t b, uint64_t c, uint64_t d, Bytes payload);
    int write_all(iovec *pieces, unsigned count);
    int failed(int error)
    {
        if (!error_)
            error_ = error;
        return error_;
    }

    int fd_;
    int error_ = 0;
    bool socket_ = true; // until sendmsg fails with ENOTSOCK
    uint32_t sequence_ = 0;
    uint64_t records_ = 0;
    uint64_t pages_ = 0;
};

} // namespace cryo::image
