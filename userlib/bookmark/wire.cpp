// SPDX-License-Identifier: Apache-2.0
#include "bookmark/wire.hpp"

#include <cassert>

#include "image/little_endian.hpp"

namespace cryo::bookmark {

namespace {

using image::ByteReader;
using image::ByteWriter;

enum class Layout : uint8_t { plain, clocks, counts, need, state };

Layout layout(MessageType type)
{
    switch (type) {
    case MessageType::targets:
    case MessageType::clocks:
    case MessageType::raise:
        return Layout::clocks;
    case MessageType::ready:
    case MessageType::expected:
        return Layout::counts;
    case MessageType::need:
    case MessageType::unneed:
        return Layout::need;
    case MessageType::state:
    case MessageType::abandon:
        return Layout::state;
    case MessageType::request:
    case MessageType::go:
    case MessageType::inquire:
    case MessageType::drained:
    case MessageType::want:
        break;
    }
    return Layout::plain;
}

// Every message begins with this header; plain messages consist of nothing else:
//
//     0       1         2        4        8
//     | type  | version | zero   | epoch  |
//
constexpr size_t kHeader = 8;

void pack_header(ByteWriter &w, const Message &m)
{
    w.put(uint8_t(m.type));
    w.put(kWireVersion);
    w.put(uint16_t(0));
    w.put(m.epoch);
}

bool unpack_header(ByteReader &r, Message &m)
{
    auto type = r.get<uint8_t>();
    auto version = r.get<uint8_t>();
    auto zero = r.get<uint16_t>();
    m.epoch = r.get<uint32_t>();
    if (!r.ok() || type == 0 || type > kLastMessageType || version != kWireVersion || zero != 0)
        return false;
    m.type = MessageType(type);
    return true;
}

// Clocks, raise, targets: `count` entries follow.
//
//     8       12      16
//     | count | zero  |
//     0               8        12      16              24              32
//     | communicator  | members | heard | lowest clock | highest clock |   (each)
//
constexpr size_t kClocksHead = 8;
constexpr size_t kClockEntry = 32;

void pack_clocks(ByteWriter &w, const Message &m)
{
    w.put(uint32_t(m.clocks.size()));
    w.put(uint32_t(0));
    for (const ClockEntry &e : m.clocks) {
        w.put(e.comm);
        w.put(e.members);
        w.put(e.heard);
        w.put(e.low);
        w.put(e.high);
    }
}

bool unpack_clocks(ByteReader &r, Message &m)
{
    auto count = r.get<uint32_t>();
    if (r.get<uint32_t>() != 0 || !r.ok() || r.left() != count * kClockEntry)
        return false;
    m.clocks.clear();
    m.clocks.reserve(count);
    for (uint32_t i = 0; i < count; i++) {
        ClockEntry e;
        e.comm = r.get<uint64_t>();
        e.members = r.get<uint32_t>();
        e.heard = r.get<uint32_t>();
        e.low = r.get<uint64_t>();
        e.high = r.get<uint64_t>();
        m.clocks.push_back(e);
    }
    return r.ok();
}

// Ready, expected: `count` entries follow.
//
//     8       12      16
//     | acks  | count |
//     0             4      8          16      24
//     | world rank  | zero | messages | bytes |   (each)
//
constexpr size_t kCountsHead = 8;
constexpr size_t kCountEntry = 24;

void pack_counts(ByteWriter &w, const Message &m)
{
    w.put(m.acks);
    w.put(uint32_t(m.counts.size()));
    for (const CountEntry &e : m.counts) {
        w.put(e.rank);
        w.put(uint32_t(0));
        w.put(e.tally.messages);
        w.put(e.tally.bytes);
    }
}

bool unpack_counts(ByteReader &r, Message &m)
{
    m.acks = r.get<uint32_t>();
    auto count = r.get<uint32_t>();
    if (!r.ok() || r.left() != count * kCountEntry)
        return false;
    m.counts.clear();
    m.counts.reserve(count);
    for (uint32_t i = 0; i < count; i++) {
        CountEntry e;
        e.rank = r.get<uint32_t>();
        if (r.get<uint32_t>() != 0)
            return false;
        e.tally.messages = r.get<uint64_t>();
        e.tally.bytes = r.get<uint64_t>();
        m.counts.push_back(e);
    }
    return r.ok();
}

// Need, unneed:
//
//     8      12   16             24     32
//     | from | to | communicator | have |
//
constexpr size_t kNeed = 24;

void pack_need(ByteWriter &w, const Message &m)
{
    w.put(m.need.from);
    w.put(m.need.to);
    w.put(m.need.comm);
    w.put(m.need.have);
}

bool unpack_need(ByteReader &r, Message &m)
{
    m.need.from = r.get<uint32_t>();
    m.need.to = r.get<uint32_t>();
    m.need.comm = r.get<uint64_t>();
    m.need.have = r.get<uint64_t>();
    return r.ok() && r.at_end();
}

// State, and the reason of abandon:
//
//     8      12      16   20     24             32     40     48
//     | rank | doing | on | zero | communicator | have | want |
//
constexpr size_t kState = 40;

void pack_state(ByteWriter &w, const Message &m)
{
    w.put(m.state.rank);
    w.put(uint32_t(m.state.doing));
    w.put(m.state.on);
    w.put(uint32_t(0));
    w.put(m.state.comm);
    w.put(m.state.have);
    w.put(m.state.want);
}

bool unpack_state(ByteReader &r, Message &m)
{
    m.state.rank = r.get<uint32_t>();
    auto doing = r.get<uint32_t>();
    m.state.on = r.get<uint32_t>();
    auto zero = r.get<uint32_t>();
    m.state.comm = r.get<uint64_t>();
    m.state.have = r.get<uint64_t>();
    m.state.want = r.get<uint64_t>();
    m.state.doing = Doing(doing);
    return r.ok() && r.at_end() && zero == 0 && doing <= kLastDoing;
}

} // namespace

size_t packed_size(const Message &message)
{
    switch (layout(message.type)) {
    case Layout::plain:
        return kHeader;
    case Layout::clocks:
        return kHeader + kClocksHead + message.clocks.size() * kClockEntry;
    case Layout::counts:
        return kHeader + kCountsHead + message.counts.size() * kCountEntry;
    case Layout::need:
        return kHeader + kNeed;
    case Layout::state:
        return kHeader + kState;
    }
    return 0;
}

std::pmr::vector<uint8_t> pack(const Message &message, std::pmr::memory_resource *memory)
{
    std::pmr::vector<uint8_t> bytes(packed_size(message), memory);
    ByteWriter w(bytes);
    pack_header(w, message);
    switch (layout(message.type)) {
    case Layout::plain:
        break;
    case Layout::clocks:
        pack_clocks(w, message);
        break;
    case Layout::counts:
        pack_counts(w, message);
        break;
    case Layout::need:
        pack_need(w, message);
        break;
    case Layout::state:
        pack_state(w, message);
        break;
    }
    assert(w.ok() && w.size() == bytes.size());
    return bytes;
}

bool unpack(Bytes bytes, Message &message)
{
    ByteReader r(bytes);
    if (!unpack_header(r, message))
        return false;
    switch (layout(message.type)) {
    case Layout::plain:
        return r.at_end();
    case Layout::clocks:
        return unpack_clocks(r, message);
    case Layout::counts:
        return unpack_counts(r, message);
    case Layout::need:
        return unpack_need(r, message);
    case Layout::state:
        return unpack_state(r, message);
    }
    return false;
}

} // namespace cryo::bookmark
