// SPDX-License-Identifier: Apache-2.0
//
// Messages between ranks and nodes of the tree. Four layouts serve all messages; each is drawn
// above its packer in wire.cpp. Numbers are little-endian.
//
//     Message m{.type = MessageType::ready, .epoch = 3};
//     std::pmr::vector<uint8_t> bytes = pack(m, memory);
//     if (!unpack(bytes, m)) ...       // false: not a message of this protocol version
//
// Ranks pack and unpack while the program is stopped, perhaps inside malloc: all memory comes from
// the resource passed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "bookmark/comm.hpp"

namespace cryo::bookmark {

using Bytes = std::span<const uint8_t>;

inline constexpr uint8_t kWireVersion = 1;

enum class MessageType : uint8_t {
    // down the tree
    request = 1,  // a checkpoint is requested
    targets = 2,  // communicators whose clocks are behind: run on until they reach these
    need = 3,     // (both ways) a rank waits for a message from this one
    unneed = 4,   // (both ways) that need no longer exists
    expected = 5, // all ranks have stopped; the messages sent to this rank
    go = 6,       // all have drained (and saved): continue
    abandon = 7,  // (both ways) the checkpoint is cancelled: continue
    inquire = 8,  // which ranks are not ready yet, and why?
    // up the tree
    clocks = 9,   // the collectives this rank has entered
    raise = 10,   // this rank entered one more than was known, or created a communicator
    ready = 11,   // this rank has stopped; the messages it sent, by receiver
    drained = 12, // all messages sent to this rank have arrived (and it is saved)
    state = 13,   // answer to inquire
    want = 14,    // the program requests a checkpoint after this epoch; sent at any time
};
inline constexpr uint8_t kLastMessageType = 14;

struct ClockEntry {
    CommId comm = 0;
    uint32_t members = 0; // of the communicator
    uint32_t heard = 0;   // number of members whose clock this entry covers
    uint64_t low = 0;     // their lowest and highest clock; targets use only `high`
    uint64_t high = 0;
    bool operator==(const ClockEntry &) const = default;
};

struct CountEntry {
    WorldRank rank = 0; // the receiver
    Tally tally;
    bool operator==(const CountEntry &) const = default;
};

// Rank `from` waits for a message from rank `to`, from which it has received `have` messages; or,
// if `comm` is not 0, from any member of that communicator.
struct Need {
    WorldRank from = 0;
    WorldRank to = 0;
    CommId comm = 0;
    uint64_t have = 0;
    bool operator==(const Need &) const = default;
};

enum class Doing : uint32_t {
    silent = 0,     // has not answered the request: it computes without calling MPI
    running = 1,    // computes; in communicator `comm` it has entered `have` of `want` collectives
    collective = 2, // is inside a collective of `comm`
    epoch = 3,      // has an open one-sided epoch
    receiving = 4,  // waits for a message from rank `on`, or from any member of `comm`
    needed = 5,     // runs on because rank `on` waits for a message from it
    draining = 6,   // has received `have` of the `want` messages sent to it
    finishing = 7,  // has all messages, but operations of its own are incomplete
    saving = 8,     // is saving, or has not reported that it is done
    gone = 9,       // its connection has ended
    failed = 10,    // could not save
    corrupt = 11,   // received `have` messages, but not as many bytes as were sent
};
inline constexpr uint32_t kLastDoing = 11;

struct StateEntry {
    WorldRank rank = 0;
    Doing doing = Doing::silent;
    WorldRank on = 0;
    CommId comm = 0;
    uint64_t have = 0;
    uint64_t want = 0;
    bool operator==(const StateEntry &) const = default;
};

struct Message {
    explicit Message(MessageType t, uint32_t e,
                     std::pmr::memory_resource *memory = std::pmr::get_default_resource())
        : type(t), epoch(e), clocks(memory), counts(memory)
    {}
    MessageType type;
    uint32_t epoch;
    uint32_t acks = 0;                   // ready: number of the parent's messages it acknowledges
    std::pmr::vector<ClockEntry> clocks; // clocks, raise, targets
    std::pmr::vector<CountEntry> counts; // ready, expected
    Need need;                           // need, unneed
    StateEntry state;                    // state, abandon

    bool operator==(const Message &) const = default;
};

size_t packed_size(const Message &message);
std::pmr::vector<uint8_t> pack(const Message &message, std::pmr::memory_resource *memory);
[[nodiscard]] bool unpack(Bytes bytes, Message &message);

} // namespace cryo::bookmark
