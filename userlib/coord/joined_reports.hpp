// SPDX-License-Identifier: Apache-2.0
//
// What the daemons of a large job say of a checkpoint, joined on the way up the tree: the daemon
// above gets one message of a whole subtree where the first daemon would get one of each node, and
// several of each rank. What is refused or has failed is not joined: that goes straight to the
// first daemon.
//
//     JoinedReports joined(loop, [](const Message &message) { ... });   // to the daemon above
//     joined.place(3, nodes, ranks);          // this one's number, and how many are below, with it
//     joined.look(7);                         // a sign of life is wanted of all of them
//     joined.add(message);                    // of this node
//     joined.take(message);                   // of a daemon below
//
// A message goes up when it is complete, or a moment after the first part of it has come: what is
// missing holds nothing else up, and goes at once when it comes.
#pragma once

#include "coord/message.hpp"
#include "coord/notices.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cryo::coord {

class Loop;

// Numbers as messages have them: the first and the last of each run of consecutive ones.
std::vector<uint64_t> runs_of(const std::set<uint32_t> &numbers);
// Calls it for each number of the runs, as long as it returns true; false: there are more of them
// than `most`, or a call has returned false.
bool each_of(const nlohmann::json &runs, uint64_t most, const std::function<bool(uint32_t)> &call);

// By rank: the snapshots that its image needs.
using Deltas = std::map<uint32_t, std::vector<int>>;
// None: no daemon of Cryo's says so. Each rank is there once, and there are no more than `most`.
std::optional<Deltas> deltas_of(const nlohmann::json &groups, uint64_t most);

class JoinedReports
{
  public:
    using Send = std::function<void(const Message &)>;

    JoinedReports(Loop &loop, Send send) : loop_(loop), send_(std::move(send)) {}
    ~JoinedReports();
    JoinedReports(const JoinedReports &) = delete;
    JoinedReports &operator=(const JoinedReports &) = delete;

    void place(uint32_t index, size_t nodes, size_t ranks);
    void look(uint64_t number) { look_ = number; }
    void sum(bool sums) { sums_ = sums; } // the sizes of images: nobody wants those of each
    // False: it is not for joining.
    bool add(const Message &own);
    // False: no daemon of Cryo's says so.
    bool take(const Message &joined);

  private:
    struct Image {
        uint64_t bytes;
        std::string checksum;   // or ""
        std::vector<int> needs; // of a delta: snapshots
    };
    bool begin(uint64_t checkpoint);
    bool is_whole() const;
    void soon();
    void flush();
    void add_images(nlohmann::json &fields);
    Message alive(uint64_t look, const std::set<uint32_t> &nodes);

    Loop &loop_;
    Send send_;
    uint32_t index_ = 0;
    size_t nodes_ = 0;
    size_t ranks_ = 0;
    uint64_t look_ = 0;
    uint64_t timer_ = 0;

    uint64_t checkpoint_ = 0; // the following is of it, and has not gone up yet
    std::set<uint32_t> prepared_;
    std::set<uint32_t> cut_;
    std::set<uint32_t> local_; // on their nodes, and not copied yet
    std::map<uint32_t, Image> images_;
    bool sums_ = false;
    uint64_t total_ = 0; // of images below, whose own sizes did not come
    uint64_t stopped_ns_ = 0;
    Notices notices_;
    std::map<uint32_t, uint64_t> growing_;
    std::map<uint64_t, std::set<uint32_t>> alive_; // by the look that they answer

    struct Sent { // how much of it has gone up
        size_t prepared = 0;
        size_t local = 0;
        size_t images = 0;
    };
    Sent sent_;
    std::map<uint64_t, size_t> alive_sent_; // of the last looks
};

} // namespace cryo::coord
