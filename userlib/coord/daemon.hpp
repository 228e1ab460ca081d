// SPDX-License-Identifier: Apache-2.0
//
// The daemon of one node: it has the node's ranks and its place in the tree, takes images, and does
// what the job's first daemon says. The coordinator (coordinator.hpp) is the one that says it, and
// sits beside the daemon of the first node.
//
//     Daemon daemon(loop, job, node, report);      // report(message): to the coordinator
//     daemon.listen_to_daemons();  daemon.listen_to_ranks();
//     daemon.command(message);                     // from the coordinator
#pragma once

#include "coord/channel.hpp"
#include "coord/imager.hpp"
#include "coord/job.hpp"
#include "coord/net.hpp"
#include "mpi/bookmark/node.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>

namespace cryo::coord {

class Daemon final : private bookmark::Node::Output
{
  public:
    using Report = std::function<void(const Message &)>;

    Daemon(Loop &loop, Job job, std::string node, Report report);
    ~Daemon() override;

    Result<void> listen_to_daemons();
    Result<void> listen_to_ranks(); // when what they say can be reported
    const Listening &tcp() const { return tcp_; }
    const std::string &name() const { return name_; }
    void command(const Message &message);
    bool busy() const { return !ranks_.empty() || !orphans_.empty(); }
    bool had_ranks() const { return had_ranks_; }

    // For the coordinator, in the first daemon.
    bookmark::Node *node() { return node_.get(); }
    std::function<void(const bookmark::StateEntry &)> on_state;
    std::function<void()> on_wanted;
    std::function<void()> on_progress; // the tree has said something
    // A daemon of another node that has proven itself, and its first message.
    std::function<void(std::shared_ptr<Channel>, const Message &)> on_join;

  private:
    struct Rank {
        uint32_t number = 0;
        int pid = 0;
        std::shared_ptr<Channel> channel;
        std::optional<uint32_t> child; // of the node
        std::unique_ptr<Imager> imager;
        bool waits = false;  // for the end of its image
        bool frozen = false; // the image no longer needs the rank
    };
    struct Task { // the checkpoint that the coordinator has prepared
        uint64_t number = 0;
        std::string directory;
        ImageOptions options;
        bool hold = false; // ranks stay where they are until `finish`
    };

    void meet(const std::shared_ptr<Channel> &channel);
    void accept_rank();
    void greet_rank(const std::shared_ptr<Channel> &channel, std::string_view body);
    void rank_frame(Rank &rank, FrameKind kind, std::string_view body);
    void rank_ended(uint32_t number);
    void take_image(Rank &rank);
    void let_go_on(Rank &rank);
    void image_ended(uint32_t number, const Taken &taken);
    void answer(Rank &rank, bool saved);
    void fail_image(Rank &rank, const std::string &why, int code);

    void accept_daemon();
    void introduced(const std::shared_ptr<Channel> &channel, const Message &first);
    void attach_child(const std::shared_ptr<Channel> &channel, uint64_t generation, uint32_t index);
    void place(const Message &message);
    void connect_parent(const nlohmann::json &parent, uint32_t index);
    void check_placed();
    void prepare(const Message &message);
    void cancel(const Message &message);
    void finish(const Message &message);
    void progress() const;

    void to_child(uint32_t child, bookmark::Bytes message) override;
    void to_parent(bookmark::Bytes message) override;
    void state(const bookmark::StateEntry &state) override;
    void wanted() override;

    Loop &loop_;
    Job job_;
    std::string name_;
    Report report_;
    Fd rank_listener_;
    Listening tcp_;
    std::map<uint32_t, Rank> ranks_;
    std::map<uint32_t, Rank> orphans_; // gone, while their frozen copies are written
    bool had_ranks_ = false;
    std::set<std::shared_ptr<Channel>> strangers_;

    uint64_t generation_ = 0;
    std::unique_ptr<bookmark::Node> node_;
    std::shared_ptr<Channel> parent_;
    bool has_parent_ = false;                        // it is connected, or there is none
    std::vector<std::shared_ptr<Channel>> children_; // by child; empty where it is a rank
    std::vector<uint32_t> child_ranks_;              // of the children behind the daemons
    std::map<std::pair<uint64_t, uint32_t>, std::shared_ptr<Channel>> early_; // not placed yet
    std::vector<uint32_t> child_daemons_;
    bool placed_ = false;
    std::optional<Task> task_;
};

} // namespace cryo::coord
