// SPDX-License-Identifier: Apache-2.0
//
// The snapshots from which a supervised MPI job can come back, named by their numbers: those that
// are finished, and of its series. Another job's may lie beside them, which somebody has made there
// by hand.
//
//     Result<Snapshots> snapshots = Snapshots::take("/scratch/run", "412-18f3a2");
#pragma once

#include "coord/snapshot.hpp"
#include "keeper/state.hpp"
#include "recover/past.hpp"

#include <memory>

namespace cryo::recover {

class Snapshots : public Past
{
  public:
    // EBUSY: one is being made, or a keeper may still have one made, and that after this time.
    static Result<Snapshots> take(const std::string &directory, const std::string &series,
                                  int patience_ms = 5000);
    Snapshots(Snapshots &&) = default;
    Snapshots &operator=(Snapshots &&) = default;
    ~Snapshots() override;

    // As of images: what ranks have done after they were brought back from an older snapshot does
    // not fit to a newer one.
    Result<void> abandon(const std::string &name) override;

  private:
    explicit Snapshots(std::unique_ptr<keeper::State> state) : state_(std::move(state)) {}

    std::unique_ptr<keeper::State> state_; // keeps keepers out
    // Keeps all others out; null: there is no snapshot.
    std::unique_ptr<coord::SnapshotWriter> writer_;
};

} // namespace cryo::recover
