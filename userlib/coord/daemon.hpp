// SPDX-License-Identifier: Apache-2.0
//
// The daemon of one node: it serves the node's ranks, has a place in
// the tree, takes images, and executes the commands of the coordinator
// (coordinator.hpp), which runs beside the daemon of the first node.
//
//     Daemon daemon(loop, job, node, report);      // report(message): to the coordinator
//     daemon.keep_port(address);  daemon.listen_to_daemons();  daemon.listen_to_ranks();
//     daemon.command(message);                     // from the coordinator
//
// What comes in is told here to those who keep it: NodeRanks, TreePlace, and NodeImages.
#pragma once

#include "coord/job.hpp"
#include "coord/joined_reports.hpp"
#include "coord/net.hpp"
#include "coord/node_images.hpp"
#include "coord/node_lease.hpp"
#include "coord/node_ranks.hpp"
#include "coord/strangers.hpp"
#include "coord/tree_place.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cryo::coord {

// The identity of a daemon that joins the first one: this prefix, and its node.
inline constexpr char join_prefix[] = "join/";

class Daemon
{
  public:
    Daemon(Loop &loop, Job job, std::string node, Report report, Ways ways = {});

    Result<void> keep_port(const std::string &address); // for other daemons, refused for now
    Result<void> listen_to_daemons();
    bool listens_to_daemons() const { return listens_; }
    Result<void> listen_to_ranks(); // only when their reports can be passed on
    const Listening &tcp() const { return tcp_; }
    const std::string &name() const { return name_; }
    void command(const Message &message);
    bool busy() const
    {
        return !ranks_.empty() || !ranks_.leashes().empty() || images_.has_orphans() ||
               images_.is_of_set() || (tree_.is_joined() && images_.has_task());
    }
    // Another daemon, or a rank, has connected; of the daemon it is proven who it is. False: none
    // is expected of that name.
    bool meet(const std::shared_ptr<Channel> &channel, const std::string &who);
    void meet_rank(const std::shared_ptr<Channel> &channel) { ranks_.meet(channel); }
    NodeLease &lease() { return lease_; }
    void joined(const Message &message); // the first daemon has accepted this one
    bool had_ranks() const { return ranks_.had_any(); }

    // For the coordinator, in the first daemon.
    bookmark::Node *node() { return tree_.node(); }
    const bookmark::Node *node() const { return tree_.node(); }
    void tell_below(const Message &message) const { tree_.tell_children(message); }
    // What was joined below a child of it (joined_reports.hpp); false: that one cannot know it.
    std::function<bool(uint32_t child, const Message &)> on_reports;
    std::function<void(const bookmark::StateEntry &)> on_state;
    std::function<void()> on_wanted;
    std::function<void()> on_progress; // the tree has sent something
    // An authenticated daemon of another node, the node, and its first message.
    std::function<void(std::shared_ptr<Channel>, const std::string &, const Message &)> on_join;

  private:
    void rank_frame(NodeRank &rank, FrameKind kind, std::string_view body);
    void rank_ended(uint32_t number);
    void refuse_rank(const Message &message);
    void accept_daemon();
    std::optional<Key> key_of(const std::string &identity) const;
    void cancel(const Message &message);
    void say(const Message &message);
    void say_again();
    TreePlace::Events tree_events();
    void progress() const;

    Loop &loop_;
    Job job_;
    std::string name_;
    Report report_;
    Ways ways_;
    Listening tcp_;
    bool listens_ = false;
    Strangers strangers_; // from other nodes
    NodeRanks ranks_;
    TreePlace tree_;
    JoinedReports joined_;
    std::vector<Message> said_; // along the tree, of this node's images in the checkpoint under way
    bool is_alone_ = false;     // no such words go along the tree until the next one
    NodeImages images_;
    NodeLease lease_;
};

} // namespace cryo::coord
