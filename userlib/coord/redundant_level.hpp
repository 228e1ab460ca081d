// SPDX-License-Identifier: Apache-2.0
//
// The coordinator's part in the level "redundant" of a snapshot (docs/stores.md): which nodes make
// a set, and what their daemons need to know to make parity of each other's images (node_set.hpp).
// Nothing that goes wrong with it affects the snapshot, which is committed before.
//
//     RedundantLevel level(loop, members, local);
//     Result<void> possible = level.plan(request, ranks);     // refused by name at the request
//     level.begin(checkpoint, images, ranks, [](const Result<void> &done) { ... });
//     level.hear(member, message);                            // *encoded*
//     level.give_up(error);                                   // names what is in the way
#pragma once

#include "coord/job_ranks.hpp"
#include "coord/snapshot.hpp"
#include "redundancy/choose_sets.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cryo::coord {

class RedundantLevel
{
  public:
    using Then = std::function<void(const Result<void> &)>;

    RedundantLevel(Loop &loop, Members &members, const Daemon &local)
        : loop_(loop), members_(members), local_(local)
    {}
    ~RedundantLevel();
    RedundantLevel(const RedundantLevel &) = delete;
    RedundantLevel &operator=(const RedundantLevel &) = delete;

    // EINVAL: the request asks for what these nodes cannot do. Without such a request nothing is
    // wanted.
    Result<void> plan(const nlohmann::json &request, const std::map<uint32_t, RankPlace> &ranks);
    bool is_wanted() const { return !nodes_.empty(); }
    const std::vector<std::string> &remarks() const { return plan_.remarks; }

    // `then` is called once, later. `longest` is for all of it.
    void begin(uint64_t checkpoint, const std::vector<SnapshotImage> &images,
               const std::map<uint32_t, RankPlace> &ranks, std::chrono::milliseconds longest,
               Then then);
    bool is_under_way() const { return bool(then_); }
    void hear(uint32_t member, const Message &message);
    void give_up(const Error &why);

    // For the metadata, and for who asked.
    std::string scheme() const { return redundancy::text_of(scheme_); }
    const std::vector<SnapshotSet> &sets() const { return sets_; }
    uint64_t parity_bytes() const { return parity_bytes_; }

  private:
    Result<void> tell_set(size_t set, uint64_t checkpoint,
                          const std::map<uint32_t, nlohmann::json> &images);
    Result<void> tell_members(uint64_t checkpoint, const std::vector<SnapshotImage> &images,
                              const std::map<uint32_t, RankPlace> &ranks);
    void finish(const Result<void> &done);

    Loop &loop_;
    Members &members_;
    const Daemon &local_;
    redundancy::Scheme scheme_;
    redundancy::Sets plan_;       // of indexes of `nodes_`
    std::vector<uint32_t> nodes_; // members that have ranks
    std::vector<SnapshotSet> sets_;
    std::set<uint32_t> awaited_; // members
    uint64_t parity_bytes_ = 0;
    uint64_t timer_ = 0;
    Then then_; // none: nothing is under way
};

} // namespace cryo::coord
