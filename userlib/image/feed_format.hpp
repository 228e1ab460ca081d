// SPDX-License-Identifier: Apache-2.0
//
// The feed: how code inside a stopped process hands records and pages to the process that writes
// the image. A private protocol between two parts of one release on one machine, over a pipe or a
// UNIX stream socket; never stored. Each frame is
//
//     u32 magic   u32 kind   u32 sequence   u32 a   u64 b   u64 c   u64 d        (40 bytes)
//
//     kind     a        b                       c                  d           then
//     hello    version  page size               0                  0
//     record   type     version | flags << 16   bytes of payload   0           payload
//     pages    object   first page              pages              0           the pages
//     zero     object   first page              pages              0
//     base     object   first page              pages              base page
//     end      0        records so far          pages so far       0
//     fail     errno    0                       bytes of text      0           text
//
// The sequence counts frames from 0, so that a frame that got lost or came from somewhere else is
// noticed. A feed without `end` was cut off: nothing of it may be committed.
#pragma once

#include "image/little_endian.hpp"

namespace cryo::image {

inline constexpr uint32_t kFeedMagic = 0x44454546; // "FEED"
inline constexpr uint32_t kFeedVersion = 1;
inline constexpr size_t kFeedFrame = 40;
inline constexpr size_t kFeedText = 1024; // bytes of a failure's text, at most

enum class FrameKind : uint32_t { hello = 1, record, pages, zero, base, end, fail };

struct Frame {
    FrameKind kind{};
    uint32_t sequence = 0;
    uint32_t a = 0;
    uint64_t b = 0;
    uint64_t c = 0;
    uint64_t d = 0;

    void encode(std::span<uint8_t, kFeedFrame> out) const
    {
        ByteWriter to(out);
        to.put(kFeedMagic);
        to.put(static_cast<uint32_t>(kind));
        to.put(sequence);
        to.put(a);
        to.put(b);
        to.put(c);
        to.put(d);
    }

    // False: not a frame.
    bool decode(std::span<const uint8_t, kFeedFrame> bytes)
    {
        ByteReader from(bytes);
        uint32_t magic = from.get<uint32_t>();
        kind = static_cast<FrameKind>(from.get<uint32_t>());
        sequence = from.get<uint32_t>();
        a = from.get<uint32_t>();
        b = from.get<uint64_t>();
        c = from.get<uint64_t>();
        d = from.get<uint64_t>();
        return magic == kFeedMagic && kind >= FrameKind::hello && kind <= FrameKind::fail;
    }
};

} // namespace cryo::image
