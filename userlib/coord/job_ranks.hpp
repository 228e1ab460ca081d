// SPDX-License-Identifier: Apache-2.0
//
// The ranks of the job, with the nodes that have claimed them, and the tree of daemons that is made
// for them once all are there: whether the job can be saved, and why not.
//
//     JobRanks ranks(job.id, local, members);
//     ranks.came(member, message);  ranks.left(member, 3);     // as daemons report
//     if (ranks.are_waited_for()) ...                          // it cannot be saved yet
//     if (Result<void> ready = ranks.complete(); !ready) ...   // EAGAIN: not yet
//
// A job may have a hundred thousand ranks: what is asked after every message is counted, and texts
// name the first few of them.
#pragma once

#include "coord/members.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cryo::bookmark {
class Topology;
}

namespace cryo::coord {

struct RankPlace {
    uint32_t member;
    int pid;
};

// Ranks as messages name them: not all of a thousand. The first of so many.
std::string list_of(const std::vector<uint32_t> &ranks, size_t count);

class JobRanks
{
  public:
    JobRanks(std::string job, const Daemon &local, Members &members);

    void came(uint32_t member, const Message &message); // if it is one of the job's
    bool left(uint32_t member, uint32_t rank);          // false: that member does not have it
    void placed(uint32_t member, uint64_t generation);
    void lose(std::string why) { lost_ = std::move(why); } // no checkpoint is possible any more

    const std::map<uint32_t, RankPlace> &all() const { return *ranks_; }
    // As they are now; what comes and goes afterwards is not seen there.
    std::shared_ptr<const std::map<uint32_t, RankPlace>> shared() const { return ranks_; }
    uint64_t generation() const { return generation_; } // of the tree
    // The tree, by the children of the first daemon (joined_reports.hpp): the member with this
    // number in it; none: it is not below that child.
    std::optional<uint32_t> member_below(uint32_t child, uint32_t index) const;
    bool is_below(uint32_t child, uint32_t member) const;
    // Also of a rank that was there when the tree was made.
    bool has_below(uint32_t child, uint32_t rank) const
    {
        return rank < below_.size() && below_[rank] == child;
    }
    uint32_t child(uint32_t child) const; // the member
    const std::set<uint32_t> &of(uint32_t member) const;
    std::string list_of(uint32_t member) const;
    uint32_t expected() const { return expected_; }
    const std::string &refused() const { return refused_; }
    bool are_there() const { return !ranks_->empty() && ranks_->size() == expected_; }
    Result<void> complete() const; // all ranks are there, and the tree stands
    // Whether complete() is EAGAIN, which costs nothing to ask for.
    bool are_waited_for() const;

  private:
    std::map<uint32_t, RankPlace> &own();
    Error missing() const;
    void place(const bookmark::Topology &tree, const std::vector<uint32_t> &members);
    void refuse(uint32_t member, const Message &rank, const std::string &why);
    void build_tree();

    std::string job_;
    const Daemon &local_;
    Members &members_;
    // Copied before it changes while somebody else has it.
    std::shared_ptr<std::map<uint32_t, RankPlace>> ranks_ =
        std::make_shared<std::map<uint32_t, RankPlace>>();
    std::map<uint32_t, std::set<uint32_t>> on_; // the ranks of each member that has any
    size_t unplaced_ = 0;                       // members that the tree waits for
    std::vector<uint32_t> tree_;                // members, as they are numbered in it
    std::vector<uint32_t> children_;            // of the first daemon, by that number
    std::vector<uint32_t> below_;               // by rank: which of these children, if any
    uint32_t expected_ = 0;
    std::string space_; // the job's name at the launcher
    uint64_t generation_ = 0;
    bool built_ = false;
    std::string lost_;    // why no checkpoint is possible any more
    std::string refused_; // why one of the ranks that have come is not in the job
};

} // namespace cryo::coord
