// SPDX-License-Identifier: Apache-2.0
#include "coord/node_copies.hpp"

#include "coord/healing_place.hpp"
#include "coord/image_copy.hpp"
#include "coord/snapshot_removal.hpp"
#include "redundancy/parity_file.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>

namespace cryo::coord {

namespace {

std::string level_of(const Snapshot &snapshot, const std::string &node)
{
    for (const SnapshotImage &image : snapshot.images) {
        if (image.node == node && !image.local.empty())
            return split_path(image.local).first;
    }
    return "";
}

// A node's name may have a slash; its first rank is no other one's.
std::string brought_of(const Snapshot &snapshot, const std::string &node)
{
    const auto first = std::ranges::find(snapshot.images, node, &SnapshotImage::node);
    return fmt::format("node.{}", first != snapshot.images.end() ? first->rank : 0);
}

Result<void> bring_image(const Directory &level, const SnapshotImage &image, const Directory &here)
{
    const Result<Directory> from = level.enter(rank_directory(image.rank));
    if (!from)
        return from.error();
    const Result<Directory> to = here.make(rank_directory(image.rank));
    if (!to)
        return to.error();
    const Result<ImageCopy> made = copy_image(*from, *to, image.file, {});
    return made ? Result<void>() : made.error();
}

} // namespace

Result<NearLevel> NodeCopies::seen(const std::string &node) const
{
    const std::string path = level_of(snapshot_, node);
    if (path.empty())
        return Error(ENOENT, "no directory of it is known");
    return hold_level_of(node, path, trust_);
}

Result<NearLevel> NodeCopies::brought(const std::string &node) const
{
    const Result<Directory> all = all_.enter(brought_name);
    if (!all)
        return all.error();
    Result<Directory> there = all->enter(brought_of(snapshot_, node));
    if (!there)
        return there.error();
    if (Result<void> good = trust_.check(there->fd(), there->path()); !good)
        return good.error();
    return NearLevel{std::move(*there), Fd()};
}

Result<NearLevel> NodeCopies::of(const std::string &node) const
{
    Result<NearLevel> level = seen(node);
    if (level)
        return level;
    Result<NearLevel> there = brought(node);
    return there ? std::move(there) : std::move(level);
}

std::vector<NearLevel> NodeCopies::of_set(const SnapshotSet &set, const std::string &but_for,
                                          std::vector<std::string> &missing) const
{
    std::vector<NearLevel> levels;
    for (const std::string &node : set.nodes) {
        if (node == but_for)
            continue;
        Result<NearLevel> level = of(node);
        if (level)
            levels.push_back(std::move(*level));
        else
            missing.push_back(fmt::format("node {}: {}", node, level.error().text()));
    }
    return levels;
}

void NodeCopies::remove_brought() const
{
    const Result<Directory> there = all_.enter(brought_name);
    if (!there || !check_healable(*there))
        return;
    there->clear();
    static_cast<void>(all_.remove(brought_name));
}

Result<size_t> bring(const SnapshotStore &store, const Snapshot &snapshot, const Trust &trust,
                     const std::string &node)
{
    const Result<Directory> all = enter_snapshot(store, snapshot, trust);
    if (!all)
        return all.error();
    if (Result<void> own = check_healable(*all); !own)
        return own.error();
    const std::string path = level_of(snapshot, node);
    if (path.empty()) // a node that had no ranks, where a launcher starts this on all
        return 0;
    const Result<NearLevel> level = hold_level_of(node, path, trust);
    if (!level)
        return level.error();
    const Result<Directory> top = make_or_enter(*all, brought_name);
    if (!top)
        return top.error();
    const Result<Directory> here = make_or_enter(*top, brought_of(snapshot, node));
    if (!here)
        return here.error();
    here->clear(); // an earlier one may be half a copy
    // What one file lacks, others of the set may make good.
    Result<void> all_there;
    if (!snapshot.redundancy.empty()) {
        const Result<ImageCopy> parity =
            copy_image(level->directory, *here, redundancy::parity_name, {});
        all_there = parity ? Result<void>() : parity.error();
    }
    size_t count = 0;
    for (const SnapshotImage &image : snapshot.images) {
        if (image.node != node || image.local.empty())
            continue;
        const Result<void> made = bring_image(level->directory, image, *here);
        count += made ? 1 : 0;
        if (!made && all_there)
            all_there = made;
    }
    return all_there ? Result<size_t>(count) : all_there.error();
}

} // namespace cryo::coord
