// SPDX-License-Identifier: Apache-2.0
//
// The directory of a snapshot's images, entered to make lacking ones there (heal.hpp), or to bring
// what they are made of (node_copies.hpp).
//
//     Result<Directory> all = enter_snapshot(store, snapshot, trust);
//     Result<void> may = check_healable(*all);
//     Result<WorkPlace> work = WorkPlace::make(*all);
#pragma once

#include "base/directory.hpp"
#include "base/result.hpp"
#include "base/trust.hpp"
#include "coord/snapshot.hpp"

#include <string>
#include <utility>

namespace cryo::coord {

Result<Directory> enter_snapshot(const SnapshotStore &store, const Snapshot &snapshot,
                                 const Trust &trust);

// EACCES: it is another user's, who can heal the snapshot.
Result<void> check_healable(const Directory &directory);

// A directory whose contents nobody else can change.
Result<Directory> make_or_enter(const Directory &where, const std::string &name);
// That of a rank, where it lies, or where it belongs: with the ranks of its group.
Result<Directory> make_or_enter_rank(const Directory &all, uint32_t rank);

// Where images are made before they get their names. What a healing that was killed has left there
// is removed.
class WorkPlace
{
  public:
    // EBUSY: another ompi-restart is at work there.
    static Result<WorkPlace> make(const Directory &all);
    WorkPlace(WorkPlace &&other) noexcept
        : all_(std::exchange(other.all_, nullptr)), here_(std::move(other.here_))
    {}
    WorkPlace(const WorkPlace &) = delete;
    WorkPlace &operator=(const WorkPlace &) = delete;
    WorkPlace &operator=(WorkPlace &&) = delete;
    ~WorkPlace();
    const Directory &here() const { return here_; }

  private:
    WorkPlace(const Directory &all, Directory here) : all_(&all), here_(std::move(here)) {}

    const Directory *all_;
    Directory here_;
};

} // namespace cryo::coord
