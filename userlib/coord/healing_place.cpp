// SPDX-License-Identifier: Apache-2.0
#include "coord/healing_place.hpp"

#include "coord/snapshot_removal.hpp"
#include "image/rank_groups.hpp"

#include <cerrno>
#include <sys/file.h>

namespace cryo::coord {

Result<Directory> enter_snapshot(const SnapshotStore &store, const Snapshot &snapshot,
                                 const Trust &trust)
{
    // Metadata decide what is replaced, by what, and from where.
    if (Result<void> good = store.check_metadata(trust); !good)
        return good.error();
    Result<Directory> all = store.directory().enter(std::to_string(snapshot.seq));
    if (!all)
        return all;
    if (Result<void> good = trust.check(all->fd(), all->path()); !good)
        return good.error();
    return all;
}

Result<void> check_healable(const Directory &directory)
{
    return check_own(directory.fd(), directory.path(),
                     "its owner can heal the snapshot (ompi-restart --heal)");
}

Result<Directory> make_or_enter(const Directory &where, const std::string &name)
{
    Result<Directory> made = where.make(name);
    if (!made && made.error().code() == EEXIST)
        made = where.enter(name);
    if (!made)
        return made;
    if (Result<void> own = check_healable(*made); !own)
        return own.error();
    return made;
}

Result<Directory> make_or_enter_rank(const Directory &all, uint32_t rank)
{
    const std::string name = rank_directory(rank);
    const Result<std::optional<struct stat>> alone = all.look(name);
    if (!alone)
        return alone.error();
    const Result<Directory> group = all.enter(image::group_directory(rank));
    if (!group && group.error().code() != ENOENT)
        return group.error();
    return make_or_enter(alone->has_value() || !group ? all : *group, name);
}

Result<WorkPlace> WorkPlace::make(const Directory &all)
{
    Result<Directory> made = make_or_enter(all, healed_name);
    if (!made)
        return made.error();
    if (flock(made->fd(), LOCK_EX | LOCK_NB) != 0)
        return errno != EWOULDBLOCK
                   ? Error::from_errno(made->path(), errno)
                   : Error(EBUSY, made->path() + ": another ompi-restart makes images there; wait "
                                                 "for its end");
    made->clear();
    return WorkPlace(all, std::move(*made));
}

WorkPlace::~WorkPlace()
{
    if (all_ == nullptr)
        return;
    here_.clear();
    static_cast<void>(all_->remove(healed_name));
}

} // namespace cryo::coord
