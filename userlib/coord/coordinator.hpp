// SPDX-License-Identifier: Apache-2.0
//
// The additional role of the job's first daemon: it knows all ranks and all daemons, makes
// the tree of them, and leads a checkpoint from a command's request to the snapshot's commit.
//
//     Coordinator coordinator(loop, job, node);
//     coordinator.begin();
//     loop.run();                     // until the launcher is gone
//
// What comes in is told here to those who keep it: Members, JobRanks, Commands, EarlyRequests, and
// the Checkpoint under way.
#pragma once

#include "coord/checkpoint.hpp"
#include "coord/commands.hpp"
#include "coord/daemon.hpp"
#include "coord/early_requests.hpp"
#include "coord/endings.hpp"
#include "coord/node_leases.hpp"
#include "coord/other_nodes.hpp"
#include "coord/supervised.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace cryo::coord {

class Coordinator
{
  public:
    // `supervisor`: a pipe to it; none: nobody supervises the job.
    Coordinator(Loop &loop, const Job &job, const std::string &node, Fd supervisor = Fd(),
                Ways ways = {});
    Result<void> begin();
    Daemon &local() { return local_; }
    // How far the job and its checkpoint are, and what they wait for, in words.
    std::string waits_for() const;

  private:
    void joined(const std::shared_ptr<Channel> &channel, const std::string &node,
                const Message &first);
    void member_gone(uint32_t number);
    void lease_ended(uint32_t number);
    void hear(uint32_t member, const Message &message);
    void tell_of_ranks();
    void rank_came(uint32_t member, const Message &message);
    void rank_left(uint32_t member, uint32_t rank, bool well);
    void rank_ends(uint32_t member, const Message &message);
    void let_ranks_end();
    bool is_elsewhere(const RankPlace &place) const;
    bool is_unfenced(const RankPlace &place) const;
    void launcher_gone();
    void tell_of_launcher();
    void tell_of_checkpoint();
    void end();

    void command(const std::shared_ptr<Channel> &channel, const Message &message);
    Message status() const;

    void look_at_early();
    void tell_early();
    void want(const std::shared_ptr<Channel> &channel, const nlohmann::json &request);
    void program_wants();
    void begin_for_program();
    Surroundings surroundings();
    void checkpoint_over();

    Loop &loop_;
    Job job_;
    Daemon local_;
    Fd launcher_;
    Members members_;
    JobRanks ranks_;
    OtherNodes others_;
    Commands commands_;
    Watchers watchers_; // of the checkpoint
    EarlyRequests early_;
    NodeLeases leases_;
    Supervised supervised_;
    Endings endings_;
    std::vector<std::pair<uint32_t, uint32_t>> ending_ranks_; // with their members: they wait
    std::shared_ptr<Checkpoint> now_;                         // null: none is under way
    uint64_t checkpoints_ = 0;
    bool again_ = false;         // the program wants one after this
    bool tells_early_ = false;   // a timer runs that will look at early requests
    bool ending_ = false;        // the launcher has ended
    bool launcher_told_ = false; // the supervisor
    bool ranks_waited_for_ = false;
    bool ended_ = false;
};

} // namespace cryo::coord
