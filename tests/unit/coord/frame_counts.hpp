// SPDX-License-Identifier: Apache-2.0
//
// Frames of a simulated job's first daemon by their kind: how many go to it and from it, and what
// it does with those that come. Several threads may count.
//
//     FrameCounts counts;
//     counts.come_by(*channel);          // counts what it gets, and what that takes, from now on
//     counts.go_by(*channel);            // at the other end: what is sent to that one
//     for (const auto &[kind, one] : counts.take()) ...
#pragma once

#include "coord/channel.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace cryo::coord::sim {

struct OfKind {
    uint64_t to_root = 0;
    uint64_t from_root = 0;
    double seconds = 0; // of a processor, for those that have come
};
using Kinds = std::map<std::string, OfKind>;

// What a frame is called: "prepare", "exchange: ready", "reports: images".
std::string kind_of(FrameKind kind, std::string_view body);

class FrameCounts
{
  public:
    // After the channel's own callback is there, and before another one replaces that.
    void come_by(Channel &channel);
    void go_by(Channel &channel);
    Kinds take(); // what has been counted since the last call

  private:
    std::mutex mutex_;
    Kinds kinds_;
};

} // namespace cryo::coord::sim
