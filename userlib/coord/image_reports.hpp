// SPDX-License-Identifier: Apache-2.0
//
// How far the images of a checkpoint are, as the nodes' daemons report it. The ranks are those that
// the job had when it began. They may change before its end: ranks that have a frozen copy may end,
// and the next mpirun of a script may start. Of a hundred thousand ranks each has a few bytes here,
// and what all of them have is counted.
//
//     ImageReports reports(ranks.shared(), members);
//     reports.cut(3);                        // its frozen copy is made
//     reports.grow(3, bytes);                // its image is being written
//     reports.add(3, {.bytes = bytes}, stopped_ns);   // and is there
//     if (reports.complete()) ...
#pragma once

#include "coord/job_ranks.hpp"
#include "coord/notices.hpp"
#include "coord/snapshot.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cryo::coord {

class ImageReports
{
  public:
    using Clock = std::chrono::steady_clock;
    using Ranks = std::map<uint32_t, RankPlace>;
    struct Growth { // of an image
        uint64_t bytes;
        Clock::time_point begun;
        Clock::time_point since; // when it has grown last
    };
    struct Image {
        uint64_t bytes = 0;
        std::string checksum = {}; // or ""
        std::vector<int> needs = {};
        bool is_described = false;
    };

    ImageReports(std::shared_ptr<const Ranks> ranks, const Members &members);

    void cut(uint32_t rank);
    void grow(uint32_t rank, uint64_t bytes);
    void add(uint32_t rank, Image image, uint64_t stopped_ns);
    void add_bytes(uint64_t bytes) { bytes_ += bytes; } // of images whose own sizes did not come
    void keep_name(uint32_t member, const std::string &name) { gone_[member] = name; } // it goes
    bool on_node(uint32_t rank); // the image is there at least; true: now all are
    // From now on images have less time to grow.
    void count_from_now();
    // Nothing grew for so long, and nothing could.
    void excuse(Clock::duration still);

    const Ranks &ranks() const { return *ranks_; }
    const std::map<uint32_t, Growth> &growth() const { return growth_; } // of those under way
    bool is_of(uint32_t member, uint32_t rank) const;
    bool has_rank(uint32_t rank) const { return is(rank, known); }
    bool has_image(uint32_t rank) const { return is(rank, there); }
    bool is_frozen(uint32_t rank) const { return is(rank, frozen) || has_image(rank); }
    bool misses_one_of(uint32_t member) const
    {
        return member < missing_.size() && missing_[member] != 0;
    }
    std::vector<uint32_t> members_that_miss() const; // images of their ranks
    size_t images_there() const { return images_; }
    bool complete() const { return images_ == ranks_->size(); }
    bool all_are_cut() const { return cuts_ >= ranks_->size(); }
    size_t steps() const { return begun_ + cuts_ + images_; }
    Message message() const; // for commands: how many there are
    std::vector<SnapshotImage> images() const;
    uint64_t bytes() const { return bytes_; }
    const std::set<int> &needs() const { return needs_; } // snapshots that the images need
    uint64_t longest_stop() const { return longest_stop_; }
    Notices &notices() { return notices_; }

  private:
    enum State : uint8_t { known = 1, begun = 2, frozen = 4, near = 8, there = 16, described = 32 };
    struct Rank {
        uint64_t bytes = 0;
        uint32_t member = 0;
        uint8_t state = 0;
    };
    bool is(uint32_t rank, State state) const
    {
        return rank < all_.size() && (all_[rank].state & state) != 0;
    }
    bool set(uint32_t rank, State state); // false: it was so before, or there is no such rank
    void begin(uint32_t rank, uint64_t bytes);

    std::shared_ptr<const Ranks> ranks_;
    const Members &members_;
    std::map<uint32_t, std::string> gone_; // members, and their names
    std::vector<Rank> all_;                // by its number
    std::vector<uint32_t> missing_;        // by member: how many images
    std::map<uint32_t, Growth> growth_;
    std::map<uint32_t, std::string> checksums_; // of the images that have one
    std::map<uint32_t, std::vector<int>> deltas_;
    size_t begun_ = 0;
    size_t cuts_ = 0;
    size_t images_ = 0;
    size_t on_nodes_ = 0;
    uint64_t bytes_ = 0;
    std::set<int> needs_;
    uint64_t longest_stop_ = 0;
    Notices notices_;
};

} // namespace cryo::coord
