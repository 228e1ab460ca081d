// SPDX-License-Identifier: Apache-2.0
//
// How far the images of a checkpoint are, as the nodes' daemons report it. The ranks are those that
// the job had when it began. They may change before its end: ranks that have a frozen copy may end,
// and the next mpirun of a script may start.
//
//     ImageReports reports(ranks.all());
//     reports.cut(3);                        // its frozen copy is made
//     reports.grow(3, bytes);                // its image is being written
//     reports.add({.rank = 3, ...}, stopped_ns);   // and is there
//     if (reports.complete()) ...
#pragma once

#include "coord/job_ranks.hpp"
#include "coord/notices.hpp"
#include "coord/snapshot.hpp"

#include <chrono>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace cryo::coord {

class ImageReports
{
  public:
    using Clock = std::chrono::steady_clock;
    struct Growth { // of an image
        uint64_t bytes;
        Clock::time_point begun;
        Clock::time_point since; // when it has grown last
    };

    explicit ImageReports(std::map<uint32_t, RankPlace> ranks);

    void cut(uint32_t rank);
    void grow(uint32_t rank, uint64_t bytes);
    void add(SnapshotImage image, uint64_t stopped_ns);
    bool on_node(uint32_t rank); // the image is there at least; true: now all are
    // From now on images have less time to grow.
    void count_from_now();
    // Nothing grew for so long, and nothing could.
    void excuse(Clock::duration still);

    const std::map<uint32_t, RankPlace> &ranks() const { return ranks_; }
    const std::map<uint32_t, Growth> &growth() const { return growth_; }
    bool is_of(uint32_t member, uint32_t rank) const;
    bool has_image(uint32_t rank) const { return images_.contains(rank); }
    bool is_frozen(uint32_t rank) const { return cut_.contains(rank) || has_image(rank); }
    bool misses_one_of(uint32_t member) const { return missing_.contains(member); }
    bool complete() const { return images_.size() == ranks_.size(); }
    bool all_are_cut() const { return cut_.size() >= ranks_.size(); }
    size_t steps() const { return growth_.size() + cut_.size() + images_.size(); }
    Message message() const; // for commands: how many there are
    std::vector<SnapshotImage> images() const;
    uint64_t bytes() const;
    std::set<int> needs() const; // snapshots that the images need
    uint64_t longest_stop() const { return longest_stop_; }
    Notices &notices() { return notices_; }

  private:
    std::map<uint32_t, RankPlace> ranks_;
    std::map<uint32_t, SnapshotImage> images_;
    std::map<uint32_t, uint32_t> missing_; // by member: how many images, if any
    std::set<uint32_t> cut_;
    std::map<uint32_t, Growth> growth_;
    std::set<uint32_t> on_nodes_;
    uint64_t longest_stop_ = 0;
    Notices notices_;
};

} // namespace cryo::coord
