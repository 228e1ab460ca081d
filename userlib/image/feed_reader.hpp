// SPDX-License-Identifier: Apache-2.0
//
// The other end of a Feed: turns what a stopped process sends into an image. Runs in a process of
// its own, in ordinary C++.
//
//     FeedReader reader(fd, "process 412");
//     if (auto ok = reader.pump(*writer); !ok)       // cut off, failed, or not a feed
//         return ok.error();                          // the writer is destroyed: no image
//     auto done = writer->commit();
#pragma once

#include "image/feed_format.hpp"
#include "image/writer.hpp"

namespace cryo::image {

class FeedReader
{
  public:
    FeedReader(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}

    // Reads one feed, from hello to end. ECANCELED: the feed ended early. A feed that reports a
    // failure yields its error.
    Result<void> pump(ImageWriter &writer);

  private:
    Result<void> pump_frames(ImageWriter &writer);
    Result<void> record(ImageWriter &writer, const Frame &frame);
    Result<void> pages(ImageWriter &writer, const Frame &frame);
    Result<void> end(const Frame &frame) const;
    Result<void> fail(const Frame &frame);
    Result<void> read(MutableBytes to);

    int fd_;
    std::string name_;
    uint64_t records_ = 0;
    uint64_t pages_ = 0;
    std::vector<uint8_t> payload_;
};

} // namespace cryo::image
