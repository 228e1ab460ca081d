// SPDX-License-Identifier: Apache-2.0
//
// A daemon's place in the tree of daemons: its node of the agreement (bookmark/node.hpp), the
// connections to its parent and its children, and how it identifies them.
//
//     TreePlace tree(loop, ranks, ways, report, {.progress = ..., .state = ..., .wanted = ...});
//     tree.place(message);                        // from the coordinator: the tree is another one
//     if (const auto child = tree.child_of(who))  // a daemon has connected, with key_of(who)
//         tree.attach(channel, *child);
#pragma once

#include "bookmark/node.hpp"
#include "coord/node_ranks.hpp"
#include "coord/tls.hpp"
#include "coord/ways.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cryo::coord {

class TreePlace final : private bookmark::Node::Output
{
  public:
    struct Events {
        std::function<void()> progress; // the tree has sent something
        std::function<void(const bookmark::StateEntry &)> state;
        std::function<void()> wanted;
        // In a large job (joined_reports.hpp): of a daemon below, and to be passed on by this one.
        std::function<bool(uint32_t child, const Message &)> reports = {};
        std::function<void(const Message &)> command = {};
        // What has gone to the daemon above may not come farther: that one has no place above this
        // one any more.
        std::function<void()> parted = {};
    };
    TreePlace(Loop &loop, NodeRanks &ranks, const Ways &ways, Report report, Events events);
    ~TreePlace() override;

    void place(const Message &message);
    bookmark::Node *node() { return node_.get(); } // null: it has no place yet
    const bookmark::Node *node() const { return node_.get(); }
    bool is_agreeing() const; // on a checkpoint
    // What is said of a checkpoint goes along the tree, not straight to the first daemon and back.
    bool is_joined() const { return nodes_below_ != 0; }
    size_t nodes_below() const { return nodes_below_; } // with this one
    size_t ranks_below() const { return ranks_below_; } // with those of this node
    uint32_t index() const { return index_; }
    void tell_children(const Message &message) const;
    void tell_parent(const Message &message) const;
    void cancelled();

    // By the identity that a connection gives; none: of no child.
    std::optional<Key> key_of(const std::string &identity) const;
    std::optional<uint32_t> child_of(const std::string &identity) const;
    void attach(const std::shared_ptr<Channel> &channel, uint32_t child);

  private:
    bool take(uint32_t child, FrameKind kind, std::string_view body);
    bool take_from_parent(FrameKind kind, std::string_view body);
    void detach();
    void connect_parent();
    void lost_parent();
    void try_parent_again(const std::string &error);
    void check_placed();

    void to_child(uint32_t child, bookmark::Bytes message) override;
    void to_parent(bookmark::Bytes message) override;
    void state(const bookmark::StateEntry &state) override { events_.state(state); }
    void wanted() override { events_.wanted(); }

    Loop &loop_;
    NodeRanks &ranks_;
    const Ways &ways_;
    Report report_;
    Events events_;
    uint64_t generation_ = 0;
    std::unique_ptr<bookmark::Node> node_;
    std::shared_ptr<Channel> parent_;
    ParentAt to_parent_;
    int tries_ = 0;                                  // to reach it
    bool has_parent_ = false;                        // it is connected, or there is none
    std::vector<std::shared_ptr<Channel>> children_; // by child daemon; null: not connected yet
    std::vector<uint32_t> child_ranks_;              // the children after the daemons
    std::map<std::string, std::pair<uint32_t, Key>> child_keys_; // by the child's identity
    bool placed_ = false;
    uint32_t index_ = 0;
    size_t nodes_below_ = 0; // 0: nothing is joined
    size_t ranks_below_ = 0;
};

} // namespace cryo::coord
