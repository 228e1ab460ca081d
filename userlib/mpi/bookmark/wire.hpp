// SPDX-License-Identifier: Apache-2.0
//
// What ranks and nodes of the tree tell each other. Four layouts serve all messages; each is drawn
// above its packer in wire.cpp. Numbers are little-endian.
//
//     Message m{.type = MessageType::ready, .epoch = 3};
//     std::pmr::vector<uint8_t> bytes = pack(m, memory);
//     if (!unpack(bytes, m)) ...       // false, and nothing else: no message of ours
//
// Ranks pack and unpack while the program stands still, perhaps inside malloc: nothing here takes
// memory from anywhere but the resource that is handed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "mpi/bookmark/comm.hpp"

namespace cryo::bookmark {

using Bytes = std::span<const uint8_t>;

inline constexpr uint8_t kWireVersion = 1;

enum class MessageType : uint8_t {
    // down the tree
    request = 1,  // a checkpoint is wanted
    targets = 2,  // communicators whose clocks are behind: run on until they are there
    need = 3,     // (both ways) somebody waits for a message of yours
    unneed = 4,   // (both ways) not any more
    expected = 5, // all stand still; so much was sent to you
    go = 6,       // all have drained (and saved): go on
    abandon = 7,  // (both ways) no checkpoint this time: go on
    inquire = 8,  // who is not there yet, and why?
    // up the tree
    clocks = 9,   // the collectives I have entered
    raise = 10,   // I have entered one more than was known, or found a communicator
    ready = 11,   // I stand still; so much I have sent to whom
    drained = 12, // all that was sent to me is here (and saved)
    state = 13,   // answer to inquire
    want = 14,    // the program asks for a checkpoint after this epoch; at any time
};
inline constexpr uint8_t kLastMessageType = 14;

struct ClockEntry {
    CommId comm = 0;
    uint32_t members = 0; // of the communicator
    uint32_t heard = 0;   // of them, how many this entry speaks for
    uint64_t low = 0;     // their lowest and highest clock; targets use `high` alone
    uint64_t high = 0;
    bool operator==(const ClockEntry &) const = default;
};

struct CountEntry {
    WorldRank rank = 0; // whom it was sent to
    Tally tally;
    bool operator==(const CountEntry &) const = default;
};

// `from` waits for a message: of rank `to`, of which it has had `have` messages; or, when `comm` is
// not 0, of any member of that communicator.
struct Need {
    WorldRank from = 0;
    WorldRank to = 0;
    CommId comm = 0;
    uint64_t have = 0;
    bool operator==(const Need &) const = default;
};

enum class Doing : uint32_t {
    silent = 0,     // has not answered since the request: it computes without calling MPI
    running = 1,    // computes, and is behind in communicator `comm`: `have` of `want` collectives
    collective = 2, // is inside a collective of `comm`
    epoch = 3,      // has an open one-sided epoch
    receiving = 4,  // waits for a message of rank `on`, or of any member of `comm`
    needed = 5,     // runs on because rank `on` waits for a message of it
    draining = 6,   // has received `have` of the `want` messages sent to it
    finishing = 7,  // has all messages, and operations of its own that are not complete
    saving = 8,     // is writing, or has failed to say that it is done
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
    uint32_t acks = 0;                   // ready: messages of the parent that this one answers
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
