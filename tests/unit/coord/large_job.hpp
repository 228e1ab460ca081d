// SPDX-License-Identifier: Apache-2.0
//
// A large job in one process: the real coordinator, the real daemons of all nodes, and ranks that
// have the real exchange and no program. The first daemon has a loop and a thread of its own, and a
// socket to each other daemon; everything else is in another thread, which calls what is in it. So
// what the first daemon does is counted apart, and what the others do takes as long as if all nodes
// had one processor together.
//
//     LargeJob job({.nodes = 250, .ranks_on_each = 16}, scratch / "job");
//     const Figures figures = job.checkpoint();
//
// Both throw std::runtime_error where the job cannot go on, which says what the first daemon waits
// for, and which daemon or rank keeps it back.
#pragma once

#include "coord/coordinator.hpp"
#include "frame_counts.hpp"
#include "in_process.hpp"
#include "standstill_watch.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cryo::coord::sim {

struct Size {
    uint32_t nodes = 1;
    uint32_t ranks_on_each = 1;
    bool images = false; // real ones, though empty; else there are no files of ranks
    bool deltas = false; // each is based on the image before, if there is one
    bool cyclic = false; // ranks follow one another over the nodes
    std::optional<uint32_t> silent = {}; // a rank that never stands still
    int64_t look_ms = 20'000;            // between looks at whether anything happens
};

struct Figures {
    std::string error; // "": the snapshot is there
    uint64_t ranks = 0;
    double seconds = 0;      // from the request to its end
    double root_seconds = 0; // of a processor, of the first daemon and of its commit
    double loop_seconds = 0; // of these, without the commit
    double commit_seconds = 0;
    uint64_t to_root = 0; // frames from other nodes
    uint64_t from_root = 0;
    Kinds kinds = {}; // of these frames
};

class LargeJob
{
  public:
    LargeJob(const Size &size, const std::string &directory);
    ~LargeJob();
    LargeJob(const LargeJob &) = delete;
    LargeJob &operator=(const LargeJob &) = delete;

    Figures checkpoint();
    // What a command would be told of the job, after the last checkpoint.
    const std::vector<std::string> &notices() const { return notices_; }

    // A node whose daemon does nothing any more, as if it were stopped.
    void stop_daemon(uint32_t node);

  private:
    struct Node {
        std::shared_ptr<Channel> up;
        std::unique_ptr<Daemon> daemon;
        uint32_t above = 0; // the node, in the tree
        bool has_joined = false;
        bool is_placed = false;
        std::shared_ptr<bool> is_stopped = std::make_shared<bool>(false);
    };

    void make_node(uint32_t node);
    void add_ranks(Daemon &daemon, InProcess &post, uint32_t node);
    uint32_t rank_of(uint32_t node, uint32_t index) const;
    Result<std::shared_ptr<Channel>> connect(uint32_t from, const ParentAt &parent);
    void introduce(const InProcess::Ends &ends, const ParentAt &parent);
    Ways ways(uint32_t node);
    Message ask(StandstillWatch &watch, const Message &request, Type answer);
    void run(StandstillWatch &watch);
    void wait_for_tree();
    void hear(const Message &message);
    void is_cut_off(const std::string &from);
    std::pair<uint64_t, uint64_t> traffic() const;
    // In words (large_job_state.cpp).
    std::string waits_for();
    void ask_first();
    std::string nodes_without(bool Node::*what) const;
    std::string keeps_tree_back() const;
    std::vector<uint32_t> children_of(uint32_t node) const;

    Size size_;
    Job job_;
    std::string store_;
    Loop loop_; // of all nodes but the first
    InProcess post_;
    std::vector<std::unique_ptr<Node>> nodes_;
    uint32_t placed_ = 0;                           // of them
    std::vector<std::shared_ptr<Channel>> of_root_; // the other ends of its connections
    std::shared_ptr<Channel> command_;
    Type awaited_ = Type::end;
    std::optional<Message> answer_;
    std::vector<std::string> notices_;
    double finished_locally_ = 0;
    FrameCounts counts_; // of the first daemon, by both threads
    std::string broken_; // what has ended, and should not
    std::vector<std::shared_ptr<void>> ranks_;
    struct First { // the first daemon, as it has last said
        std::string waits_for = "has not answered";
        std::vector<uint32_t> awaited = {}; // of its children in the tree
        bool is_asked = false;
    };
    First first_;
    Mailbox from_root_;

    // In the thread of the first daemon:
    Loop root_loop_;
    InProcess root_post_;
    std::unique_ptr<Coordinator> coordinator_;
    std::vector<std::shared_ptr<void>> root_ranks_;
    LoopThread root_; // which ends before what it uses
};

} // namespace cryo::coord::sim
