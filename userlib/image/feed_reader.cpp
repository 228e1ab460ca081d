// SPDX-License-Identifier: Apache-2.0
#include "image/feed_reader.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

namespace cryo::image {

Result<void> FeedReader::read(MutableBytes to)
{
    while (!to.empty()) {
        ssize_t n = ::read(fd_, to.data(), to.size());
        if (n > 0) {
            to = to.subspan(size_t(n));
        } else if (n == 0 || errno == ECONNRESET) {
            return Error(ECANCELED, "it ended before it had sent everything; nothing was saved");
        } else if (errno == EAGAIN) {
            pollfd p{fd_, POLLIN, 0};
            poll(&p, 1, -1);
        } else if (errno != EINTR) {
            return Error::from_errno("reading what it sends", errno);
        }
    }
    return {};
}

Result<void> FeedReader::pump(ImageWriter &writer)
{
    auto ok = pump_frames(writer);
    if (!ok)
        return ok.error().within(name_);
    return ok;
}

Result<void> FeedReader::pump_frames(ImageWriter &writer)
{
    records_ = pages_ = 0;
    for (uint32_t sequence = 0;; sequence++) {
        std::array<uint8_t, kFeedFrame> bytes;
        if (auto ok = read(bytes); !ok)
            return ok;
        Frame frame;
        if (!frame.decode(bytes) || frame.sequence != sequence)
            return Error(EPROTO, fmt::format("frame {} of its feed is garbled", sequence));
        if ((frame.kind == FrameKind::hello) != (sequence == 0) ||
            (sequence == 0 && (frame.a != kFeedVersion || frame.b != kPageSize)))
            return Error(EPROTO, "its feed is of another version of Cryo; start it again");
        Result<void> ok;
        switch (frame.kind) {
        case FrameKind::hello:
            break;
        case FrameKind::record:
            ok = record(writer, frame);
            break;
        case FrameKind::pages:
            ok = pages(writer, frame);
            break;
        case FrameKind::zero:
            pages_ += frame.c;
            ok = writer.add_zero(frame.a, frame.b, frame.c);
            break;
        case FrameKind::base:
            pages_ += frame.c;
            ok = writer.add_base(frame.a, frame.b, frame.c, frame.d);
            break;
        case FrameKind::end:
            return end(frame);
        case FrameKind::fail:
            return fail(frame);
        }
        if (!ok)
            return ok;
    }
}

Result<void> FeedReader::record(ImageWriter &writer, const Frame &frame)
{
    if (frame.c > kMaxRecord)
        return Error(EPROTO, fmt::format("its feed has a record of {} bytes", frame.c));
    payload_.resize(frame.c);
    if (auto ok = read(payload_); !ok)
        return ok;
    records_++;
    return writer.add_record(static_cast<RecordType>(frame.a), uint16_t(frame.b),
                             uint16_t(frame.b >> 16), payload_);
}

// Reads from the pipe straight into the segment's memory, without a copy.
Result<void> FeedReader::pages(ImageWriter &writer, const Frame &frame)
{
    if (frame.c > kMaxPage)
        return Error(EPROTO, fmt::format("its feed has a run of {} pages", frame.c));
    uint64_t page = frame.b;
    for (uint64_t left = frame.c; left;) {
        auto space = writer.page_space(left);
        if (!space)
            return space.error();
        if (auto ok = read(*space); !ok)
            return ok;
        uint64_t count = space->size() / kPageSize;
        if (auto ok = writer.take_pages(frame.a, page, count); !ok)
            return ok;
        page += count;
        left -= count;
    }
    pages_ += frame.c;
    return {};
}

Result<void> FeedReader::end(const Frame &frame) const
{
    if (frame.b != records_ || frame.c != pages_)
        return Error(EPROTO, fmt::format("it sent {} records and {} pages; {} and {} arrived",
                                         frame.b, frame.c, records_, pages_));
    return {};
}

Result<void> FeedReader::fail(const Frame &frame)
{
    payload_.resize(std::min<uint64_t>(frame.c, kFeedText));
    if (auto ok = read(payload_); !ok)
        return ok;
    return Error(int(frame.a), std::string(as_text(payload_)));
}

} // namespace cryo::image
