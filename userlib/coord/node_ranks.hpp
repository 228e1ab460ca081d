// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a node, connected to its daemon by a UNIX socket, and what the daemon keeps of each.
//
//     NodeRanks ranks(loop, report);
//     ranks.on_frame = [](NodeRank &rank, FrameKind kind, std::string_view body) { ... };
//     ranks.on_end = [&](uint32_t number) { ...; ranks.remove(number); };
//     Result<void> done = ranks.listen(path);
#pragma once

#include "base/fd.hpp"
#include "coord/channel.hpp"
#include "coord/imager.hpp"
#include "coord/leashes.hpp"
#include "coord/strangers.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cryo::coord {

// What a daemon says to the coordinator.
using Report = std::function<void(const Message &)>;

struct NodeRank {
    uint32_t number = 0;
    int pid = 0;
    std::shared_ptr<Channel> channel;
    std::optional<uint32_t> child; // its number in the tree, below this node
    std::unique_ptr<Imager> imager;
    bool waits = false;                   // for the end of its image
    bool frozen = false;                  // the image no longer needs the rank
    std::string local;                    // the directory that its image is written to first, or ""
    bool stored = false;                  // its image is complete there
    std::optional<Message> news;          // of its coming, until it cannot outlive the daemon
    bool well = false;                    // it has said that it ends as the program wants
    std::shared_ptr<Channel> ending = {}; // on which it waits until it may end
};

class NodeRanks
{
  public:
    NodeRanks(Loop &loop, Report report);
    Result<void> listen(const std::string &path);
    void meet(const std::shared_ptr<Channel> &channel); // which has connected
    Leashes &leashes() { return leashes_; }
    const Leashes &leashes() const { return leashes_; }

    std::function<void(NodeRank &, FrameKind, std::string_view)> on_frame;
    std::function<void(uint32_t)> on_end; // which removes it

    std::map<uint32_t, NodeRank> &all() { return all_; }
    NodeRank *find(uint32_t number); // null: it has ended
    void remove(uint32_t number) { all_.erase(number); }
    bool empty() const { return all_.empty(); }
    void may_end(uint32_t number); // which has asked
    bool had_any() const { return had_any_ || leashes_.had_any(); }

  private:
    void accept();
    void greet(const std::shared_ptr<Channel> &channel, std::string_view body);
    void frame(NodeRank &rank, FrameKind kind, std::string_view body);
    void hear_ending(const std::shared_ptr<Channel> &channel, std::string_view body);

    Loop &loop_;
    Report report_;
    Fd listener_;
    std::map<uint32_t, NodeRank> all_;
    bool had_any_ = false;
    Leashes leashes_;
    Strangers strangers_; // from this node, of the same user
};

} // namespace cryo::coord
