// SPDX-License-Identifier: Apache-2.0
//
// Takes the images of a node's ranks for the checkpoint that the coordinator has prepared, and
// says to ranks that wait for theirs what becomes of them.
//
//     NodeImages images(loop, job.id, node, ranks, tree, report);
//     images.prepare(message);
//     images.take(rank);                  // it stands still and has asked for its image
//     images.finish(message);             // or cancel()
#pragma once

#include "coord/node_level.hpp"
#include "coord/node_ranks.hpp"
#include "coord/node_set.hpp"
#include "coord/ways.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace cryo::coord {

class TreePlace;

class NodeImages
{
  public:
    NodeImages(Loop &loop, const std::string &job, const std::string &node, NodeRanks &ranks,
               const TreePlace &tree, const Ways &ways, Report report);

    void prepare(const Message &message);
    void cancel(uint64_t checkpoint);
    void finish(const Message &message);
    void encode(const Message &message); // parity of what is here, and of other nodes' images
    NodeSet &set() { return set_; }
    const NodeSet &set() const { return set_; }
    void look(); // the coordinator asks for a sign of life, and what is under way

    void take(NodeRank &rank);
    void refuse(NodeRank &rank); // it has asked for its image, and gets none
    void left(NodeRank &rank, std::string_view epoch);
    // To be called before a rank is removed; true: its image was being taken, and has failed.
    bool part_from(NodeRank &rank);
    void report_failure(uint32_t rank, const std::string &why, int code);
    bool has_task() const { return task_.has_value(); }
    // Of the checkpoint under way: its image needs nothing more of it, and the message that says
    // so.
    bool is_frozen(const NodeRank &rank) const { return task_ && rank.frozen; }
    Message cut_of(const NodeRank &rank) const;
    bool has_orphans() const { return !orphans_.empty(); }
    // Until the end of the checkpoint: other nodes still need what is here, or will.
    bool is_of_set() const { return task_ && task_->in_set && !task_->near.empty(); }

  private:
    struct Task { // the checkpoint that the coordinator has prepared
        uint64_t number = 0;
        std::string directory;
        ImageOptions options;
        bool hold = false;                // ranks stay where they are until `finish`
        std::optional<int> previous = {}; // the snapshot that deltas may be based on
        bool in_set = false;              // parity is made of the images
        bool counted = false;             // the ranks' own metadata say on which nodes they are
        std::map<uint32_t, redundancy::SetFile> near; // images in this node's own directory

        std::string directory_of(uint32_t rank) const;
    };

    NodeRank *find(uint32_t number); // of this node or an orphan; null: neither
    void cut(uint32_t number);
    void stored(uint32_t number);
    void ended(uint32_t number, const Taken &taken);
    void let_go_on(NodeRank &rank);
    void answer(NodeRank &rank, bool saved);
    void fail(NodeRank &rank, const std::string &why, int code);
    void tell_ranks();
    void tell_alive();
    void look_at_imagers();

    Loop &loop_;
    std::string node_;
    NodeRanks &ranks_;
    const TreePlace &tree_;
    const Ways &ways_;
    Report report_;
    std::map<uint32_t, NodeRank> orphans_; // ended, while their frozen copies are written
    std::optional<Task> task_;
    uint64_t cancelled_ = 0; // the last checkpoint that was: `prepare` may come by a longer way
    std::optional<Message> to_prepare_; // when older levels are gone
    NodeLevel level_;
    NodeSet set_;
};

} // namespace cryo::coord
