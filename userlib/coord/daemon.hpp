// SPDX-License-Identifier: Apache-2.0
//
// The daemon of one node: it has the node's ranks and its place in the tree, takes images, and does
// what the job's first daemon says. The coordinator (coordinator.hpp) is the one that says it, and
// sits beside the daemon of the first node.
//
//     Daemon daemon(loop, job, node, report);      // report(message): to the coordinator
//     daemon.keep_port(address);  daemon.listen_to_daemons();  daemon.listen_to_ranks();
//     daemon.command(message);                     // from the coordinator
#pragma once

#include "coord/channel.hpp"
#include "coord/imager.hpp"
#include "coord/job.hpp"
#include "coord/net.hpp"
#include "coord/strangers.hpp"
#include "mpi/bookmark/node.hpp"

#include <map>
#include <memory>
#include <optional>

namespace cryo::coord {

// What a daemon that joins the first one calls itself: this, and its node.
inline constexpr char join_prefix[] = "join/";

class Daemon final : private bookmark::Node::Output
{
  public:
    using Report = std::function<void(const Message &)>;

    Daemon(Loop &loop, Job job, std::string node, Report report);
    ~Daemon() override;

    Result<void> keep_port(const std::string &address); // for other daemons, who are refused yet
    Result<void> listen_to_daemons();
    bool listens_to_daemons() const { return listens_; }
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
    // A daemon of another node that has proven itself, the node, and its first message.
    std::function<void(std::shared_ptr<Channel>, const std::string &, const Message &)> on_join;

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

    void accept_rank();
    void greet_rank(const std::shared_ptr<Channel> &channel, std::string_view body);
    void rank_frame(Rank &rank, FrameKind kind, std::string_view body);
    void rank_ended(uint32_t number);
    void take_image(Rank &rank);
    void rank_left(Rank &rank, std::string_view epoch);
    void let_go_on(Rank &rank);
    void image_ended(uint32_t number, const Taken &taken);
    void answer(Rank &rank, bool saved);
    void fail_image(Rank &rank, const std::string &why, int code);

    void accept_daemon();
    std::optional<Key> key_of(const std::string &identity) const;
    void introduced(const std::shared_ptr<Channel> &channel);
    void attach_child(const std::shared_ptr<Channel> &channel, uint32_t child);
    void place(const Message &message);
    void connect_parent();
    void try_parent_again(const std::string &error);
    void detach();
    void check_placed();
    void prepare(const Message &message);
    void cancel(const Message &message);
    void finish(const Message &message);
    void tell_alive();
    void tell_ranks();
    void look_at_imagers();
    void progress() const;
    bool is_agreeing() const; // the tree is, upon a checkpoint

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
    Strangers strangers_;      // from other nodes
    Strangers strangers_here_; // of this one, of the same user
    bool listens_ = false;

    uint64_t generation_ = 0;
    std::unique_ptr<bookmark::Node> node_;
    std::shared_ptr<Channel> parent_;
    struct Parent {
        std::vector<std::string> addresses;
        uint16_t port = 0;
        Key key = {};       // that we share with it, and with nobody else
        uint32_t index = 0; // of ours
        int tries = 0;
    };
    Parent to_parent_;
    bool has_parent_ = false;                        // it is connected, or there is none
    std::vector<std::shared_ptr<Channel>> children_; // by child; empty where it is a rank
    std::vector<uint32_t> child_ranks_;              // of the children behind the daemons
    std::vector<uint32_t> child_daemons_;
    std::map<std::string, std::pair<uint32_t, Key>> child_keys_; // by what a child calls itself
    bool placed_ = false;
    std::optional<Task> task_;
};

} // namespace cryo::coord
