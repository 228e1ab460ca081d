// SPDX-License-Identifier: Apache-2.0
#include "recover/snapshots.hpp"

#include "coord/snapshot_text.hpp"
#include "keeper/series.hpp"

#include <cerrno>

namespace cryo::recover {

// Numbers are never used again, so they count what has been made.
Result<Snapshots> Snapshots::take(const std::string &directory, const std::string &series,
                                  int patience_ms)
{
    Result<keeper::State> state = keeper::State::take(directory, patience_ms);
    if (!state)
        return state.error();
    Snapshots snapshots(std::make_unique<keeper::State>(std::move(*state)));
    Result<coord::SnapshotWriter> writer =
        coord::SnapshotWriter::open(directory + "/" + keeper::reference_name);
    if (!writer && writer.error().code() == ENOENT)
        return Result<Snapshots>(std::move(snapshots)); // there is none yet
    if (!writer)
        return writer.error();
    snapshots.writer_ = std::make_unique<coord::SnapshotWriter>(std::move(*writer));
    const coord::SnapshotStore &store = snapshots.writer_->store();
    const auto made = [](int seq) { return static_cast<uint64_t>(seq) + 1; };
    const Result<int> last = store.last_number();
    if (!last)
        return last.error();
    snapshots.offer_.made = made(*last);
    for (const auto &[seq, snapshot] : store.snapshots()) {
        if (snapshot.finished && snapshot.series == series)
            snapshots.offer_.images.push_back({.name = std::to_string(seq), .made = made(seq)});
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
    Result<void> done =
        writer_ ? writer_->abandon(coord::seq_of(name)) : Error(ENOENT, "there is no snapshot");
    if (done)
        std::erase_if(offer_.images, [&](const Image &one) { return one.name == name; });
    return done;
}

} // namespace cryo::recover
