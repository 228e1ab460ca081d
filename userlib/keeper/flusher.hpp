// SPDX-License-Identifier: Apache-2.0
//
// Copies images from the first directory to the second while the program and its keeper run on.
// Each image appears there when it is complete and on the disk, and only after all images that
// it needs.
//
//     Flusher flusher(Series(first), Series(second), bytes_a_second);
//     flusher.begin(keep, images, locks);
//     poll({flusher.fd(), POLLIN});
//     Result<double> took = flusher.end();
#pragma once

#include "base/fd.hpp"
#include "elsewhere/job_place.hpp"
#include "keeper/remote_series.hpp"
#include "keeper/series.hpp"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::keeper {

class Flusher
{
  public:
    Flusher(Series from, Series to, uint64_t bandwidth)
        : from_(std::move(from)), to_(std::move(to)), bandwidth_(bandwidth)
    {}

    // To what is no directory; no more than its bandwidth.
    Flusher(Series from, std::shared_ptr<const RemoteSeries> to)
        : from_(std::move(from)), to_({}), remote_(std::move(to))
    {}

    // The snapshots of an MPI job, to what is no directory.
    Flusher(Series from, elsewhere::JobPlace to, uint64_t bandwidth)
        : from_(std::move(from)), to_({}), job_(std::move(to)), bandwidth_(bandwidth)
    {}

    bool active() const { return child_ > 0; }
    // Readable when copying has ended.
    int fd() const { return ended_.get(); }
    // Copies the newest image and all that it needs, as far as they are missing, then prunes the
    // second directory. The copying process closes `locks`. `images` were made by this series, here
    // or there; from what is no directory those of them go that are not here any more.
    Result<void> begin(unsigned keep, const Images &images, const std::vector<int> &locks);
    // Waits for the end of copying. Returns the seconds that it took.
    Result<double> end();
    // Ends it early.
    void give_up();
    // The images of the first directory that have to stay until then.
    const std::set<std::string> &copying() const { return copying_; }

  private:
    Result<std::vector<std::string>> wanted() const;
    Result<void> work(const std::vector<std::string> &names, unsigned keep, Images images) const;
    Result<bool> has_copy(const std::string &name) const;
    Result<void> copy(const std::string &name) const;
    Result<void> place(const std::string &made, const std::string &name) const;

    Series from_, to_;
    std::shared_ptr<const RemoteSeries> remote_; // in its place, if it is there
    std::optional<elsewhere::JobPlace> job_;     // likewise
    uint64_t bandwidth_ = 0;
    pid_t child_ = 0;
    Fd ended_; // read end of a pipe on which the child reports its error
    double begun_ = 0;
    std::set<std::string> copying_;
};

} // namespace cryo::keeper
