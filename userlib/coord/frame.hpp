// SPDX-License-Identifier: Apache-2.0
//
// The traffic of every connection of a job: frames, each a header and its
// body. Ranks send and get the binary ones; daemons and commands send
// each other everything else as JSON. docs/coordinator.md lists them.
//
//      0               4       5           8
//     +---------------+-------+-----------+--------------
//     | length of body| kind  | 0   0   0 | body ...
//     +---------------+-------+-----------+--------------
#pragma once

#include <cstdint>

namespace cryo::coord {

enum class FrameKind : uint8_t {
    hello = 1,     // a rank: Hello, and the name of its job at the launcher
    welcome = 2,   // to a rank: Welcome
    refused = 3,   // the reason, for a person; the connection ends
    bookmark = 4,  // a message of the bookmark exchange
    image = 5,     // from a rank: it stands still, its image may be taken
    image_end = 6, // to the rank: one byte, 1 if it may go on as saved
    json = 7,      // daemons and commands
    image_cut = 8, // to a held rank: its image needs nothing more of it
    wait = 9,      // to a rank: the daemon is alive, the checkpoint is under way
    left = 10,     // from a rank: it heard nothing for too long, and has gone on
    block = 11,    // between the daemons of a set: XXH3-64, and the block (redundancy/exchange.hpp)
    leave = 12,    // the same: how many more blocks may be sent
    // To a rank: it must not outlive the daemon. From a process, alone on a connection: it asks for
    // that, and gets one back, or a welcome if there is no need. From a rank: it has it
    // (rank_leash.cpp).
    leash = 13,
    piece = 14, // of an image, to a server of images or from it (server/session.hpp)
    // From a rank: one byte, how it ends (rank_end.hpp); that all is well, on the connection that
    // it has; else alone on another one, and it gets one back when it may end.
    ending = 15,
};

struct FrameHeader {
    uint32_t length = 0;
    FrameKind kind = FrameKind::json;
    uint8_t zero[3] = {};
};
static_assert(sizeof(FrameHeader) == 8);

// More than any message of a job of 100,000 ranks; a peer that sends more is not one of Cryo's.
constexpr uint32_t most_body = 1U << 26;

// Of an image that a server gets or gives; and how many images it lists at once.
constexpr uint32_t most_piece = 1U << 18;
constexpr uint32_t most_listed = 256;

constexpr uint32_t hello_version = 3;
constexpr uint32_t hello_without_ending = 2; // of ranks that do not tell how they end

struct Hello {
    uint32_t version = hello_version;
    uint32_t rank = 0;
    uint32_t ranks = 0;
    int32_t pid = 0;
};
static_assert(sizeof(Hello) == 16);

struct Welcome {
    uint32_t patience_ms = 0; // how long a rank waits without any message
};
static_assert(sizeof(Welcome) == 4);

} // namespace cryo::coord
