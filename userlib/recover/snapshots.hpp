// SPDX-License-Identifier: Apache-2.0
//
// The snapshots from which a supervised MPI job can come back, named by their numbers: those that
// are finished.
//
//     Result<Snapshots> snapshots = Snapshots::take("/scratch/run");
#pragma once

#include "keeper/state.hpp"
#include "recover/past.hpp"

#include <memory>

namespace cryo::recover {

class Snapshots : public Past
{
  public:
    // EBUSY: a keeper may still have one made, and that after this time.
    static Result<Snapshots> take(const std::string &directory, int patience_ms = 5000);
    Snapshots(Snapshots &&) = default;
    Snapshots &operator=(Snapshots &&) = default;
    ~Snapshots() override;

    // As of images: what ranks have done after they were brought back from an older snapshot does
    // not fit to a newer one.
    Result<void> abandon(const std::string &name) override;

  private:
    Snapshots(std::string path, std::unique_ptr<keeper::State> state)
        : path_(std::move(path)), state_(std::move(state))
    {}

    std::string path_;
    std::unique_ptr<keeper::State> state_; // keeps keepers out
};

} // namespace cryo::recover
