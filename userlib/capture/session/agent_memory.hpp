// SPDX-License-Identifier: Apache-2.0
//
// The part of a session that is about the stopped program's memory: who serves its pages, which of
// them are copied at once, which exist, and what has changed since an earlier checkpoint.
//
//     AgentMemory &memory = session->memory();
//     if (Result<void> asked = memory.ask_to_fork(); !asked)
//         return asked;
//     ... other work, while the program makes a copy of itself ...
//     Result<PageSource> pages = memory.forked();   // the copy serves them
#pragma once

#include "base/fd.hpp"
#include "base/remote_address.hpp"
#include "base/result.hpp"
#include "capture/session/agent_connection.hpp"
#include "capture/session/page_source.hpp"
#include "look/runs.hpp"
#include "protocol/agent.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace cryo::capture {

// The method by which the agent watches memory (capture/memory/tracker.hpp).
struct TrackerLink {
    Fd fd; // a userfaultfd of the program; none if nothing is watched
    agent::TrackerKind kind = agent::TrackerKind::none;
    std::array<uint8_t, 16> token{};
    uint64_t marks = 0; // as in agent::TrackerFacts
    uint32_t notes = 0;
    uint64_t mark = 0, changes = 0;
};

class AgentMemory
{
  public:
    explicit AgentMemory(AgentConnection &connection) : connection_(&connection) {}

    // Pages from a copy, which the program makes while others are asked; it may be resumed once the
    // copy exists. Or from the stopped program itself: then finish() and served() must follow. With
    // a descriptor of /dev/cryo the kernel module moves the pages.
    Result<void> ask_to_fork(int device = -1);
    Result<PageSource> forked();
    Result<PageSource> serve(int device = -1);
    Result<void> served();
    // Copies this memory into a file from `offset` on, one run after the other; all or an error.
    Result<void> stage(int file, uint64_t offset, const std::vector<Run> &runs);

    // Which of these pages are in memory (mincore); EOPNOTSUPP if the agent is too old.
    Result<std::vector<Run>> touched(RemoteAddress start, RemoteAddress end);
    // NUMA policies of the memory at these addresses; empty if the agent is too old.
    Result<std::vector<agent::Policy>> policies(const std::vector<RemoteAddress> &addresses);

    // Creates a tracker of the wanted kind if there is none; fails if none can be created.
    Result<TrackerLink> tracker(agent::TrackerKind wanted);
    Result<void> set_watched(const std::array<uint8_t, 16> &token, uint32_t notes = 0);
    Result<void> stop_watching(uint32_t notes = 0);

  private:
    Result<void> watch(const agent::WatchedRequest &request);

    AgentConnection *connection_;
    Fd copy_commands_, copy_pages_; // our ends of the channels of a copy in the making
    bool copy_has_device_ = false;
};

} // namespace cryo::capture
