// SPDX-License-Identifier: Apache-2.0
//
// A snapshot of an MPI job, and the earlier ones of its directory: the time line of the job.
//
//     auto job = JobSource::find("ompi_global_snapshot_412.ckpt");
//     if (job && *job)
//         good = JobSection(page, limits, input, **job).show();
#pragma once

#include "coord/snapshot.hpp"
#include "html/pieces.hpp"
#include "html/process.hpp"

namespace cryo::inspect {

class JobSource
{
  public:
    // The directory of a job's snapshots, of which the last one is shown, or that of one of them.
    // Empty: it is something else.
    static Result<std::optional<JobSource>> find(const std::string &path);

    std::string path() const { return store_.path(); }
    const std::map<int, coord::Snapshot> &snapshots() const { return store_.snapshots(); }
    const coord::Snapshot &shown() const { return shown_; }
    // "mpirun -n 4 ./ring", as the user has written it, or the same of a job that was brought back.
    std::string title(const Input &input) const;

    Source load(const coord::SnapshotImage &image, const Input &input) const;

  private:
    JobSource(coord::SnapshotStore store, int seq)
        : store_(std::move(store)), shown_(store_.with_ranks(store_.snapshots().at(seq)))
    {}
    Result<Fd> open(const coord::SnapshotImage &image) const;

    coord::SnapshotStore store_;
    coord::Snapshot shown_;
};

class JobSection
{
  public:
    JobSection(Html &page, const PageLimits &limits, const Input &input, const JobSource &job)
        : page_(page), limits_(limits), input_(input), job_(job), sections_(limits.text)
    {}

    // False: an image could not be read, as standard error says, too.
    bool show();

  private:
    void facts();
    void generations();
    void nodes();
    void sets();
    void ranks();
    void rank(HtmlTable &table, const coord::SnapshotImage &image, bool with_section,
              uint64_t largest);

    Html &page_;
    const PageLimits &limits_;
    const Input &input_;
    const JobSource &job_;
    Html sections_; // of ranks
    bool good_ = true;
};

} // namespace cryo::inspect
