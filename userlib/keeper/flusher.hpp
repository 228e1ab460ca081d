// SPDX-License-Identifier: Apache-2.0
//
// Copies images from the first directory to the second while the program and its keeper go on. Each
// appears there when it is complete and on the disk, and in an order in which none is without what
// it needs.
//
//     Flusher flusher(Series(first), Series(second), bytes_a_second);
//     flusher.begin(keep);
//     poll({flusher.fd(), POLLIN});
//     Result<double> took = flusher.end();
#pragma once

#include "base/fd.hpp"
#include "keeper/series.hpp"

#include <sys/types.h>

namespace cryo::keeper {

class Flusher
{
  public:
    Flusher(Series from, Series to, uint64_t bandwidth)
        : from_(std::move(from)), to_(std::move(to)), bandwidth_(bandwidth)
    {}

    bool active() const { return child_ > 0; }
    // Readable when it has ended.
    int fd() const { return ended_.get(); }
    // Copies the newest image with all that it needs and is not there, then prunes. `locks` are
    // descriptors that this work shall not hold. `images` were made by this series, here or there.
    Result<void> begin(unsigned keep, const Images &images, const std::vector<int> &locks);
    // Seconds that it took.
    Result<double> end();

  private:
    Result<void> work(unsigned keep, Images images) const;
    Result<bool> has_copy(const std::string &name) const;
    Result<void> copy(const std::string &name) const;

    Series from_, to_;
    uint64_t bandwidth_;
    pid_t child_ = 0;
    Fd ended_; // the end of a pipe on which the child tells what went wrong
    double begun_ = 0;
};

} // namespace cryo::keeper
