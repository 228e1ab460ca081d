// SPDX-License-Identifier: Apache-2.0
//
// The additional role of the job's first daemon: it knows all ranks and all daemons, makes
// the tree of them, and leads a checkpoint from a command's request to the snapshot's commit.
//
//     Coordinator coordinator(loop, job, node);
//     coordinator.begin();
//     loop.run();                     // until the launcher is gone
#pragma once

#include "coord/aside.hpp"
#include "coord/daemon.hpp"
#include "coord/snapshot.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace cryo::coord {

// The message that ends a command's conversation when it fails.
Message end_of(const Error &error);

class Coordinator
{
  public:
    Coordinator(Loop &loop, const Job &job, const std::string &node);
    ~Coordinator();
    Result<void> begin();
    Daemon &local() { return local_; }

  private:
    using Clock = std::chrono::steady_clock;
    struct Member { // a node
        std::string name;
        std::shared_ptr<Channel> channel; // null: this node
        std::vector<std::string> addresses;
        uint16_t port = 0;
        uint32_t index = 0; // in the tree
        bool placed = false;
        std::string trouble;
        Clock::time_point heard = {}; // when its last message came
    };
    struct Progress { // of an image
        uint64_t bytes;
        Clock::time_point begun;
        Clock::time_point since; // when it has grown last
    };
    struct RankPlace {
        uint32_t member;
        int pid;
    };
    struct Early { // requested before all ranks were there
        std::shared_ptr<Channel> channel;
        nlohmann::json request;
        uint64_t limit = 0; // timer
        std::string told;   // the last reason for waiting that was sent
    };
    enum class Stage : uint8_t { preparing, pending, running, finishing, held, cancelling };
    struct Checkpoint {
        Checkpoint();
        uint64_t number = 0;
        Stage stage = Stage::preparing;
        nlohmann::json request;
        std::optional<SnapshotWriter> writer;
        std::set<uint32_t> awaited; // members: prepared, or idle
        // The ranks when it began. They may change before its end: ranks that
        // have a frozen copy may end, and the next mpirun of a script may start.
        std::map<uint32_t, RankPlace> ranks;
        std::map<uint32_t, SnapshotImage> images;
        std::map<uint32_t, bool> cut;
        std::map<uint32_t, Progress> progress;
        std::set<uint32_t> on_nodes;      // ranks whose images are there, on their nodes at least
        bool told_of_nodes = false;       // that all are
        std::vector<std::string> notices; // of images, as far as a command takes them
        size_t notice_bytes = 0;
        size_t left_out = 0; // of the notices
        std::string error;
        int code = 0;
        uint64_t longest_stop = 0;
        Clock::time_point begun = Clock::now();
        Clock::time_point looked = begun; // when daemons were last asked for a report
        Clock::time_point given_up = {};
        std::unique_ptr<Aside> commit;  // under way
        std::string kept_all;           // why the commit could not remove older snapshots
        uint64_t patience = 0;          // timer
        size_t steps = 0;               // of ranks, in what look_at_cut() has seen
        Clock::time_point stepped = {}; // when the last of them was seen
        bool agreed = false;            // the tree has finished it
        bool asked = false;             // the tree was asked for it
        bool by_program = false;
    };

    // Nodes and ranks
    void joined(const std::shared_ptr<Channel> &channel, const std::string &node,
                const Message &first);
    void member_gone(uint32_t number);
    void hear(uint32_t member, const Message &message);
    bool speaks_for(uint32_t member, uint32_t rank);
    void expel(uint32_t member, const std::string &why);
    void rank_came(uint32_t member, const Message &message);
    void refuse_rank(uint32_t member, const Message &rank, const std::string &why);
    void rank_left(uint32_t member, uint32_t rank);
    void build_tree();
    void tell(uint32_t member, const Message &message);
    void tell_all(const Message &message);
    Result<void> complete() const; // all ranks are there, and the tree stands

    // Commands
    void accept_command();
    void tell_clients_of_life();
    void command(const std::shared_ptr<Channel> &channel, const Message &message);
    Message status() const;

    // Checkpoints
    void await_ranks(const std::shared_ptr<Channel> &channel, const nlohmann::json &request);
    void look_at_early();
    bool forget_early(const std::shared_ptr<Channel> &channel);
    void want(const std::shared_ptr<Channel> &channel, const nlohmann::json &request);
    void program_wants();
    void begin_for_program();
    Result<void> begin_checkpoint(const nlohmann::json &request);
    void prepared(uint32_t member, const Message &message);
    void all_have_answered();
    void image_came(const Message &message);
    void image_on_node(uint32_t rank);
    nlohmann::json local_level(const nlohmann::json &request) const;
    void note(std::string notice);
    void look_at_tree();
    void look_at_images();
    void commit();
    Result<void> write_commit(const std::vector<SnapshotImage> &images);
    Message end_of_snapshot() const;
    void committed(const Result<void> &done);
    bool look_at_members();
    void look_at_cut();
    bool stands_still() const; // the job, at the cut
    bool images_are_due(uint32_t member);
    std::vector<uint32_t> silent_members() const;
    std::optional<std::string> silence() const;
    void give_up(std::string error, int code);
    void idle(uint32_t member);
    void end_checkpoint();
    void say(const char *state);
    void to_watchers(const Message &message);
    void tell_missing();
    void watch_members();
    void look_at_progress(uint32_t member, const Message &message);
    void look_at_growth();
    void launcher_gone();
    void look_for_others();

    Loop &loop_;
    Job job_;
    Daemon local_;
    Fd launcher_;
    Fd commands_;
    std::set<std::shared_ptr<Channel>> clients_;
    bool beats_ = false;                          // clients get regular signs of life
    std::set<std::shared_ptr<Channel>> watchers_; // of the checkpoint
    std::vector<Early> early_;
    std::map<uint32_t, Member> members_; // 0: this node
    uint32_t next_member_ = 1;
    std::map<uint32_t, RankPlace> ranks_;
    uint32_t expected_ranks_ = 0;
    std::string space_; // the job's name at the launcher
    uint64_t generation_ = 0;
    bool built_ = false;
    std::string lost_;    // why no checkpoint is possible any more
    std::string refused_; // why one of the ranks that have come is not in the job
    std::string state_ = "none";
    std::optional<Checkpoint> now_;
    uint64_t checkpoints_ = 0;
    bool again_ = false; // the program wants one after this
    bool ending_ = false;

    // Whether the network is needed.
    Clock::time_point looked_from_;
    std::optional<Clock::time_point> first_rank_;
    bool looks_ = false;
};

} // namespace cryo::coord
