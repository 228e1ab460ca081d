// SPDX-License-Identifier: Apache-2.0
//
// The tree of nodes beside a simulated job: every connection is two queues, and the caller decides
// which queue moves next.
//
//     TreeSim tree(topology, [&](WorldRank r, const auto &bytes) { ... });
//     tree.root().request();
//     while (size_t n = tree.busy())
//         tree.deliver(random() % n);
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "bookmark/node.hpp"

namespace cryo::bookmark::sim {

class TreeSim
{
  public:
    using Packed = std::vector<uint8_t>;
    using ToRank = std::function<void(WorldRank, const Packed &)>;

    TreeSim(const Topology &topology, ToRank to_rank);
    TreeSim(const TreeSim &) = delete;
    TreeSim &operator=(const TreeSim &) = delete;
    ~TreeSim();

    Node &root();
    size_t busy() const { return busy_.size(); } // queues that are not empty
    void deliver(size_t which);
    void deliver_wave(); // everything in flight now: one hop
    void from_rank(WorldRank rank, Bytes bytes);
    void lose(WorldRank rank);

    // Applied to messages that nodes or ranks queue; may change, drop or add some. For sabotage.
    struct Filter {
        std::function<bool(Packed &, bool down, bool is_rank, WorldRank)> pass = {};
        std::function<size_t(size_t)> pick = {}; // which of a queue's messages goes first
    };
    Filter filter;
    void inject_up(WorldRank rank, const Packed &bytes); // bypasses the filter

    std::vector<StateEntry> states; // answers that came to the root
    bool wanted = false;            // the program asks for a checkpoint
    uint64_t messages = 0;          // delivered
    uint64_t total_bytes = 0;
    uint64_t most_bytes = 0;             // of one message
    std::vector<uint64_t> bytes_of_rank; // in and out
    std::vector<uint64_t> bytes_of_node; // in and out

  private:
    struct Queue { // one direction of one connection
        uint32_t parent;
        uint32_t child; // number among the parent's children
        bool down;
        std::deque<Packed> messages = {};
    };
    class Out;
    void put(size_t queue, Bytes message, bool filtered);
    void deliver_from(size_t queue);

    ToRank to_rank_;
    std::vector<std::unique_ptr<Out>> outs_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<Queue> queues_;                   // two for each connection: down, up
    std::vector<std::vector<size_t>> connection_; // [node][child]: index of its first queue
    std::vector<std::vector<uint32_t>> who_;      // [node][child]: daemon or rank index
    std::vector<Routes> routes_;
    std::vector<size_t> up_of_node_; // queue from a node to its parent
    std::vector<size_t> up_of_rank_;
    std::vector<size_t> busy_;
    std::vector<size_t> place_in_busy_;
};

} // namespace cryo::bookmark::sim
