// SPDX-License-Identifier: Apache-2.0
//
// The snapshot that a checkpoint of a job makes, from its directory to its commit, which runs
// beside the loop: ranks may be waiting, and must get signs of life meanwhile.
//
//     JobSnapshot snapshot(loop);
//     Result<std::string> token = snapshot.begin(job, request);   // for daemons to find it
//     snapshot.commit(images, keep, [](const Result<void> &done) { ... });
//
// What was not committed is removed by release() or by the destructor.
#pragma once

#include "coord/aside.hpp"
#include "coord/job.hpp"
#include "coord/message.hpp"
#include "coord/snapshot.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cryo::coord {

class JobSnapshot
{
  public:
    explicit JobSnapshot(Loop &loop) : loop_(loop) {}

    Result<std::string> begin(const Job &job, const nlohmann::json &request);
    // For ranks that are to be counted: SnapshotWriter::make_groups.
    Result<void> make_groups(uint32_t ranks) const { return writer_->make_groups(ranks); }
    // Of the finished snapshots of this job only the last `keep` remain; 0: all.
    void commit(std::vector<SnapshotImage> images, unsigned keep, Aside::Then then);
    void commit_counted(uint32_t ranks, uint64_t bytes, unsigned keep, Aside::Then then);
    // Of what is committed: its sets are complete, too.
    void add_sets(const std::string &redundancy, std::vector<SnapshotSet> sets, Aside::Then then);
    bool is_committing() const { return aside_ != nullptr; }
    const std::string &kept_all() const { return kept_all_; }
    void unlock() { writer_->unlock(); }
    void release() { writer_.reset(); }

    int seq() const { return writer_->seq(); }
    const std::string &path() const { return writer_->path(); }
    std::string directory() const { return writer_->directory(); }
    std::string level_name() const { return writer_->level_name(); }
    // The finished snapshot on whose images new ones may be based; none: they are complete.
    std::optional<int> previous() const;
    // Whether a finished snapshot has an image of the rank.
    bool has_image(int seq, uint32_t rank);

  private:
    void write(std::function<Result<void>()> commit, unsigned keep, Aside::Then then);
    Result<void> keep(unsigned count);

    Loop &loop_;
    std::optional<SnapshotWriter> writer_;
    std::string kept_all_;         // why the commit could not remove older snapshots
    std::unique_ptr<Aside> aside_; // the commit under way, which uses the others
};

} // namespace cryo::coord
