// SPDX-License-Identifier: Apache-2.0
#include "recover/snapshots.hpp"

#include "coord/snapshot.hpp"
#include "coord/snapshot_text.hpp"
#include "keeper/series.hpp"

#include <cerrno>

namespace cryo::recover {

Result<Snapshots> Snapshots::take(const std::string &directory)
{
    std::unique_ptr<keeper::State> held;
    Result<keeper::State> state = keeper::State::take(directory);
    if (state)
        held = std::make_unique<keeper::State>(std::move(*state));
    else if (state.error().code() != EBUSY)
        return state.error();
    Snapshots snapshots(directory + "/" + keeper::reference_name, std::move(held));
    const Result<coord::SnapshotStore> store = coord::SnapshotStore::open(snapshots.path_);
    if (!store && store.error().code() == ENOENT)
        return Result<Snapshots>(std::move(snapshots)); // there is none yet
    if (!store)
        return store.error();
    for (const auto &[seq, snapshot] : store->snapshots()) {
        if (snapshot.finished)
            snapshots.names_.push_back(std::to_string(seq));
    }
    return Result<Snapshots>(std::move(snapshots));
}

Snapshots::~Snapshots()
{
    if (state_)
        state_->give_back(false);
}

Result<void> Snapshots::abandon(const std::string &name)
{
    Result<void> done = coord::SnapshotWriter::abandon(path_, coord::seq_of(name));
    if (done)
        std::erase(names_, name);
    return done;
}

} // namespace cryo::recover
