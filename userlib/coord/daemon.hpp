// SPDX-License-Identifier: Apache-2.0
//
// The daemon of one node: it serves the node's ranks, has a place in
// the tree, takes images, and executes the commands of the coordinator
// (coordinator.hpp), which runs beside the daemon of the first node.
//
//     Daemon daemon(loop, job, node, report);      // report(message): to the coordinator
//     daemon.keep_port(address);  daemon.listen_to_daemons();  daemon.listen_to_ranks();
//     daemon.command(message);                     // from the coordinator
#pragma once

#include "bookmark/node.hpp"
#include "coord/aside.hpp"
#include "coord/channel.hpp"
#include "coord/imager.hpp"
#include "coord/job.hpp"
#include "coord/local_level.hpp"
#include "coord/net.hpp"
#include "coord/strangers.hpp"

#include <map>
#include <memory>
#include <optional>

namespace cryo::coord {

// The identity of a daemon that joins the first one: this prefix, and its node.
inline constexpr char join_prefix[] = "join/";

class Daemon final : private bookmark::Node::Output
{
  public:
    using Report = std::function<void(const Message &)>;

    Daemon(Loop &loop, Job job, std::string node, Report report);
    ~Daemon() override;

    Result<void> keep_port(const std::string &address); // for other daemons, refused for now
    Result<void> listen_to_daemons();
    bool listens_to_daemons() const { return listens_; }
    Result<void> listen_to_ranks(); // only when their reports can be passed on
    const Listening &tcp() const { return tcp_; }
    const std::string &name() const { return name_; }
    void command(const Message &message);
    bool busy() const { return !ranks_.empty() || !orphans_.empty(); }
    bool had_ranks() const { return had_ranks_; }

    // For the coordinator, in the first daemon.
    bookmark::Node *node() { return node_.get(); }
    const bookmark::Node *node() const { return node_.get(); }
    std::function<void(const bookmark::StateEntry &)> on_state;
    std::function<void()> on_wanted;
    std::function<void()> on_progress; // the tree has sent something
    // An authenticated daemon of another node, the node, and its first message.
    std::function<void(std::shared_ptr<Channel>, const std::string &, const Message &)> on_join;

  private:
    struct Rank {
        uint32_t number = 0;
        int pid = 0;
        std::shared_ptr<Channel> channel;
        std::optional<uint32_t> child; // its number in node_
        std::unique_ptr<Imager> imager;
        bool waits = false;  // for the end of its image
        bool frozen = false; // the image no longer needs the rank
        std::string local;   // the directory that its image is written to first, or ""
        bool stored = false; // its image is complete there
    };
    struct LocalTask { // the level of the nodes' own directories (docs/stores.md)
        std::string base;
        unsigned keep = 1;
        uint64_t rate = 0;
        uint64_t room = 0;               // on its disk, when it was begun
        std::optional<LocalLevel> level; // none: images go straight to the snapshot's directory
        std::string trouble;             // why; "": it was told
    };
    struct Task { // the checkpoint that the coordinator has prepared
        uint64_t number = 0;
        std::string directory;
        ImageOptions options;
        bool hold = false; // ranks stay where they are until `finish`
        std::optional<LocalTask> local;
    };

    void accept_rank();
    void greet_rank(const std::shared_ptr<Channel> &channel, std::string_view body);
    void rank_frame(Rank &rank, FrameKind kind, std::string_view body);
    void rank_ended(uint32_t number);
    void refuse_rank(const Message &message);
    void take_image(Rank &rank);
    void rank_left(Rank &rank, std::string_view epoch);
    void let_go_on(Rank &rank);
    void image_ended(uint32_t number, const Taken &taken);
    void answer(Rank &rank, bool saved);
    void fail_image(Rank &rank, const std::string &why, int code);
    std::optional<LocalTask> begin_local(const nlohmann::json &wanted);
    std::string make_local(uint32_t rank);
    void image_is_local(uint32_t number);
    std::string why_not_local(const LocalTask &local);
    void blame_local(const Rank &rank, const Taken &taken);
    void end_local(bool committed);
    void local_is_retired();

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
    bool is_agreeing() const; // on a checkpoint, in the tree

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
    std::map<uint32_t, Rank> orphans_; // ended, while their frozen copies are written
    bool had_ranks_ = false;
    Strangers strangers_;      // from other nodes
    Strangers strangers_here_; // from this node, of the same user
    bool listens_ = false;

    uint64_t generation_ = 0;
    std::unique_ptr<bookmark::Node> node_;
    std::shared_ptr<Channel> parent_;
    struct Parent {
        std::vector<std::string> addresses;
        uint16_t port = 0;
        Key key = {};       // shared with it, and with no other daemon
        uint32_t index = 0; // this daemon's index
        int tries = 0;
    };
    Parent to_parent_;
    bool has_parent_ = false;                        // it is connected, or there is none
    std::vector<std::shared_ptr<Channel>> children_; // by child daemon; null: not connected yet
    std::vector<uint32_t> child_ranks_;              // the children after the daemons
    std::vector<uint32_t> child_daemons_;
    std::map<std::string, std::pair<uint32_t, Key>> child_keys_; // by the child's identity
    bool placed_ = false;
    std::optional<Task> task_;
    std::optional<LocalLevel> last_level_; // of the last snapshot; stays as long as this daemon
    struct Blame {
        std::string why;
        std::string base;
        uint64_t room = 0;
        bool fresh = false; // no checkpoint has done without yet
    };
    Blame blame_;                       // of the disk, if images have failed there
    std::optional<Message> to_prepare_; // when older levels are gone
    std::unique_ptr<Aside> retiring_;   // removes them
};

} // namespace cryo::coord
