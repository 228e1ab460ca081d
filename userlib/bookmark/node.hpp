// SPDX-License-Identifier: Apache-2.0
//
// One node of the tree: a daemon with ranks and other daemons below it. It merges its children's
// messages before it reports to its parent, and forwards to each child only what concerns it. A
// state machine without sockets, threads or clocks; docs/bookmark.md is its specification.
//
//     Node node({.routes = topology.routes(d), .root = d == 0}, output);
//     node.from_child(i, bytes);  node.from_parent(bytes);  node.lost_child(i);
//
// Checkpoints are requested at the root:
//
//     Result<uint32_t> epoch = node.request();
//     ... until node.outcome(): done, or abandoned with a reason
//     node.inquire();             // who is not ready yet? Answers come to Output::state()
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "bookmark/clocks_below.hpp"
#include "bookmark/counts_below.hpp"
#include "bookmark/topology.hpp"
#include "bookmark/wire.hpp"

namespace cryo::bookmark {

// A state in human-readable form: "rank 3: waits for a message from rank 5".
std::string describe(const StateEntry &state);

class Node
{
  public:
    // Where messages go. Each channel preserves their order. Messages are queued: none of these
    // functions calls back into the node.
    class Output
    {
      public:
        Output() = default;
        Output(const Output &) = delete;
        Output &operator=(const Output &) = delete;
        virtual ~Output() = default;
        virtual void to_child(uint32_t child, Bytes message) = 0;
        virtual void to_parent(Bytes message) = 0;
        virtual void state(const StateEntry &state) = 0; // at the root: an answer to inquire()
        virtual void wanted() = 0; // at the root: the program asks for another checkpoint
    };
    struct Config {
        Routes routes;
        bool root = false;
        // The root abandons a checkpoint after this many raises: ranks that wait for a message from
        // any source could otherwise be made to run on for ever.
        uint64_t most_raises = 1'000'000;
        // Below this node: as many as one message to its parent could name (coord/frame.hpp).
        uint64_t most_communicators = 1U << 21;
        // Answers to one inquiry that go up: in a large job the first of them are enough to see why
        // it waits, and all of them would be a message of each rank at the root.
        uint32_t most_states = 256;
    };
    enum class Outcome : uint8_t { none, working, done, abandoned };

    Node(Config config, Output &output);

    Result<void> from_child(uint32_t child, Bytes bytes);
    Result<void> from_parent(Bytes bytes);
    void lost_child(uint32_t child); // its connection has ended
    void lost_parent();

    // For the root.
    Result<uint32_t> request();
    void abandon(const StateEntry &reason);
    void decline(); // the program requested a checkpoint that cannot begin: tells the ranks
    void inquire();
    uint32_t epoch() const { return epoch_; }
    Outcome outcome() const { return outcome_; }
    bool at_cut() const
    {
        return stage_ == Stage::cut;
    } // all ranks stand still, at the root's word
    const StateEntry &reason() const { return reason_; } // of outcome abandoned
    unsigned rounds() const { return rounds_; }          // tree rounds of this checkpoint
    // The children that have to say more first; none: it waits for its parent, or for nothing.
    std::vector<uint32_t> awaited() const;

  private:
    struct Child {
        bool lost = false;
        bool clocks = false;
        bool drained = false;
    };
    enum class Stage : uint8_t { idle, clocks, running, cut, over };

    void begin(uint32_t epoch);
    void end(const Message &message);
    void on_clocks(uint32_t child, const Message &m);
    void pass_state(const StateEntry &state);
    void on_raise(uint32_t child, const Message &m);
    void on_need(const Message &m);
    void tell_wanted(uint32_t child, CommId comm);
    void on_targets(const Message &m);
    void clocks_complete();
    void send_targets(ClocksBelow::Targets targets);
    void pass_need_down(const Message &m, std::optional<uint32_t> child);
    void tell(uint32_t child, const Message &m); // counted: the child's `ready` must acknowledge it
    void check_ready();
    void check_drained();
    void send_expected();
    void to_all(const Message &m);
    void up(const Message &m);
    void down(uint32_t child, const Message &m);
    Message message(MessageType type) const { return Message(type, epoch_); }

    Config config_;
    Output &output_;
    std::vector<Child> children_;
    ClocksBelow clocks_;
    CountsBelow counts_;
    std::vector<Message> early_; // needs received before all clocks were in
    Stage stage_ = Stage::idle;
    Outcome outcome_ = Outcome::none;
    StateEntry reason_;
    uint32_t epoch_ = 0;
    bool drained_ = false;
    uint64_t raises_ = 0;
    unsigned rounds_ = 0;
    uint32_t states_ = 0; // passed up since the last inquiry
};

} // namespace cryo::bookmark
