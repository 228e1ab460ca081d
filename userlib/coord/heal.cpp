// SPDX-License-Identifier: Apache-2.0
#include "coord/heal.hpp"

#include "coord/image_copy.hpp"
#include "coord/local_level.hpp"
#include "coord/snapshot_removal.hpp"
#include "redundancy/encode.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <optional>
#include <sys/file.h>
#include <sys/stat.h>
#include <utility>

namespace cryo::coord {

namespace {

constexpr const char *way_out = "its owner can heal the snapshot (ompi-restart --heal)";

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

// A directory whose contents nobody else can change.
Result<Directory> make_or_enter(const Directory &where, const std::string &name)
{
    Result<Directory> made = where.make(name);
    if (!made && made.error().code() == EEXIST)
        made = where.enter(name);
    if (!made)
        return made;
    if (Result<void> own = check_own(made->fd(), made->path(), way_out); !own)
        return own.error();
    return made;
}

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

// Where images are made before they get their names. What a healing that was killed has left there
// is removed.
class WorkPlace
{
  public:
    static Result<WorkPlace> make(const Directory &all)
    {
        Result<Directory> made = make_or_enter(all, healed_name);
        if (!made)
            return made.error();
        if (flock(made->fd(), LOCK_EX | LOCK_NB) != 0)
            return errno != EWOULDBLOCK
                       ? Error::from_errno(made->path(), errno)
                       : Error(EBUSY, made->path() +
                                          ": another ompi-restart makes images there; wait "
                                          "for its end");
        made->clear();
        return WorkPlace(all, std::move(*made));
    }
    WorkPlace(WorkPlace &&other) noexcept
        : all_(std::exchange(other.all_, nullptr)), here_(std::move(other.here_))
    {}
    WorkPlace(const WorkPlace &) = delete;
    WorkPlace &operator=(const WorkPlace &) = delete;
    WorkPlace &operator=(WorkPlace &&) = delete;
    ~WorkPlace()
    {
        if (all_ == nullptr)
            return;
        here_.clear();
        static_cast<void>(all_->remove(healed_name));
    }
    const Directory &here() const { return here_; }

  private:
    WorkPlace(const Directory &all, Directory here) : all_(&all), here_(std::move(here)) {}

    const Directory *all_;
    Directory here_;
};

class Healing
{
  public:
    Healing(const Snapshot &snapshot, const Trust &trust, Look look, const Directory &all,
            std::vector<std::string> &said)
        : snapshot_(snapshot), trust_(trust), look_(look), all_(all), said_(said)
    {}
    Result<void> run();

  private:
    struct Lack {
        const SnapshotImage *image;
        std::string why;
        bool has_image = false; // what it lacks is the text beside it
    };

    std::optional<std::string> lacks_image(const SnapshotImage &image) const;
    std::optional<Lack> lacks(const SnapshotImage &image) const;
    Result<void> write_text(const SnapshotImage &image) const;
    Result<void> make_lacking(const Directory &work);
    void remove_brought() const;
    Result<std::string> copy(const SnapshotImage &image, const Directory &work) const;
    Result<void> copy_from(const Directory &level, const SnapshotImage &image,
                           const Directory &work) const;
    Result<void> rebuild_node(const std::string &node, const std::vector<Lack> &lacking,
                              const Directory &work);
    Result<void> place(const SnapshotImage &image, const Directory &from) const;
    Result<NearLevel> near_level(const std::string &node) const;
    Result<NearLevel> brought_level(const std::string &node) const;
    Result<NearLevel> level_of_node(const std::string &node) const;
    const SnapshotSet *set_of(const std::string &node) const;
    std::vector<NearLevel> levels_of(const SnapshotSet &set, const std::string &but_for,
                                     std::vector<std::string> &missing) const;
    void look_at_sets();

    const Snapshot &snapshot_;
    const Trust &trust_;
    Look look_;
    const Directory &all_; // of the snapshot's images
    std::vector<Lack> lacking_;
    std::vector<std::string> &said_;
};

// Why the snapshot's directory has no good image of it.
std::optional<std::string> Healing::lacks_image(const SnapshotImage &image) const
{
    const Result<Directory> rank = all_.enter(rank_directory(image.rank));
    if (!rank)
        return rank.error().text();
    const Result<std::optional<struct stat>> status = rank->look(image.file);
    if (!status)
        return status.error().text();
    const std::string path = rank->path(image.file);
    if (!status->has_value() || !S_ISREG((*status)->st_mode))
        return Error::from_errno(path, ENOENT).text();
    if (static_cast<uint64_t>((*status)->st_size) != image.bytes)
        return fmt::format("{}: has {} bytes, and had {}", path, (*status)->st_size, image.bytes);
    if (look_ == Look::sizes || image.checksum.empty())
        return std::nullopt;
    const Result<ImageCopy> found = measure_image(*rank, image.file);
    if (!found)
        return found.error().text();
    if (found->checksum != image.checksum)
        return path + ": is not what was saved (checksum)";
    return std::nullopt;
}

std::optional<Healing::Lack> Healing::lacks(const SnapshotImage &image) const
{
    if (std::optional<std::string> why = lacks_image(image))
        return Lack{&image, std::move(*why)};
    const Result<Directory> rank = all_.enter(rank_directory(image.rank));
    const Result<std::optional<struct stat>> text =
        rank ? rank->look(local_metadata_name) : rank.error();
    if (!text)
        return Lack{&image, text.error().text()};
    if (text->has_value())
        return std::nullopt;
    return Lack{&image, Error::from_errno(rank->path(local_metadata_name), ENOENT).text(), true};
}

Result<void> Healing::write_text(const SnapshotImage &image) const
{
    const Result<Directory> rank = make_or_enter(all_, rank_directory(image.rank));
    return rank ? write_local_metadata(*rank, image) : rank.error();
}

// Where it is seen here.
Result<NearLevel> Healing::near_level(const std::string &node) const
{
    const std::string path = level_of(snapshot_, node);
    if (path.empty())
        return Error(ENOENT, "no directory of it is known");
    return hold_level_of(node, path, trust_);
}

Result<NearLevel> Healing::brought_level(const std::string &node) const
{
    const Result<Directory> all = all_.enter(brought_name);
    if (!all)
        return all.error();
    Result<Directory> brought = all->enter(brought_of(snapshot_, node));
    if (!brought)
        return brought.error();
    if (Result<void> good = trust_.check(brought->fd(), brought->path()); !good)
        return good.error();
    return NearLevel{std::move(*brought), Fd()};
}

Result<NearLevel> Healing::level_of_node(const std::string &node) const
{
    Result<NearLevel> level = near_level(node);
    if (level)
        return level;
    Result<NearLevel> brought = brought_level(node);
    return brought ? std::move(brought) : std::move(level);
}

const SnapshotSet *Healing::set_of(const std::string &node) const
{
    for (const SnapshotSet &set : snapshot_.sets) {
        if (std::ranges::find(set.nodes, node) != set.nodes.end())
            return &set;
    }
    return nullptr;
}

// Names of files come from the metadata, and so does what an image has to be.
Result<void> Healing::place(const SnapshotImage &image, const Directory &from) const
{
    const Result<Directory> made = from.enter(rank_directory(image.rank));
    if (!made)
        return made.error();
    const Result<ImageCopy> found = measure_image(*made, image.file);
    if (!found)
        return found.error();
    if (found->bytes != image.bytes || found->checksum != image.checksum)
        return Error(EBADMSG, made->path(image.file) + ": is not what was saved (checksum)");
    const Result<Directory> rank = make_or_enter(all_, rank_directory(image.rank));
    if (!rank)
        return rank.error();
    // The image is the last, so that an end at any moment leaves a lack that is seen.
    if (Result<void> written = write_local_metadata(*rank, image); !written)
        return written;
    // A damaged one that is there is replaced.
    if (renameat(made->fd(), image.file.c_str(), rank->fd(), image.file.c_str()) != 0)
        return Error::from_errno(rank->path(image.file), errno);
    return rank->sync();
}

Result<void> Healing::copy_from(const Directory &level, const SnapshotImage &image,
                                const Directory &work) const
{
    const Result<Directory> from = level.enter(rank_directory(image.rank));
    if (!from)
        return from.error();
    const Result<Directory> to = make_or_enter(work, rank_directory(image.rank));
    if (!to)
        return to.error();
    to->clear(); // of a copy that proved wrong
    const Result<ImageCopy> made = copy_image(*from, *to, image.file, {});
    if (!made)
        return made.error();
    if (made->bytes != image.bytes || made->checksum != image.checksum)
        return Error(EBADMSG, from->path(image.file) + ": is not what was saved (checksum)");
    return place(image, work);
}

// From its node's directory, or from what the node has brought; that is the result.
Result<std::string> Healing::copy(const SnapshotImage &image, const Directory &work) const
{
    std::string trouble;
    for (const auto where : {&Healing::near_level, &Healing::brought_level}) {
        const Result<NearLevel> level = (this->*where)(image.node);
        const Result<void> copied =
            level ? copy_from(level->directory, image, work) : Result<void>(level.error());
        if (copied)
            return level->directory.path(rank_directory(image.rank));
        if (trouble.empty() || copied.error().code() != ENOENT)
            trouble += (trouble.empty() ? "" : "; ") + copied.error().text();
    }
    return Error(ENODATA, trouble);
}

std::vector<NearLevel> Healing::levels_of(const SnapshotSet &set, const std::string &but_for,
                                          std::vector<std::string> &missing) const
{
    std::vector<NearLevel> levels;
    for (const std::string &node : set.nodes) {
        if (node == but_for)
            continue;
        Result<NearLevel> level = level_of_node(node);
        if (level)
            levels.push_back(std::move(*level));
        else
            missing.push_back(fmt::format("node {}: {}", node, level.error().text()));
    }
    return levels;
}

Result<void> Healing::rebuild_node(const std::string &node, const std::vector<Lack> &lacking,
                                   const Directory &work)
{
    const SnapshotSet *set = set_of(node);
    if (set == nullptr)
        return Error(ENODATA, fmt::format("{}; node {} has no good copy of it where its directory "
                                          "can be seen, and belongs to no set (--redundancy)",
                                          lacking.front().why, node));
    const auto doing = fmt::format("the images of node {} are made of those of the other nodes of "
                                   "its set ({})",
                                   node, snapshot_.redundancy);
    const auto member =
        static_cast<uint32_t>(std::ranges::find(set->nodes, node) - set->nodes.begin());
    std::vector<std::string> missing;
    const std::vector<NearLevel> levels = levels_of(*set, node, missing);
    std::vector<const Directory *> there;
    there.reserve(levels.size());
    for (const NearLevel &level : levels)
        there.push_back(&level.directory);
    const Result<Directory> fresh = work.make(fmt::format("node.{}", lacking.front().image->rank));
    if (!fresh)
        return fresh.error();
    const std::map<uint32_t, const Directory *> to = {{member, &*fresh}};
    const Result<redundancy::Rebuilt> rebuilt = redundancy::rebuild(there, to, trust_);
    if (!rebuilt)
        return rebuilt.error().within(doing).with_more(
            missing.empty() ? "" : fmt::format("; {}", fmt::join(missing, "; ")));
    for (const Error &damage : rebuilt->damaged)
        said_.push_back(damage.text() + "; it was not used");
    for (const Lack &lack : lacking) {
        if (Result<void> placed = place(*lack.image, *fresh); !placed)
            return placed.error().within(doing);
        said_.push_back(fmt::format("the image of rank {} was made of those of the set of node {} "
                                    "({}): {}",
                                    lack.image->rank, node, snapshot_.redundancy, lack.why));
    }
    return {};
}

// An image that its node still has is copied; the others of the node are made of its set. The first
// error ends nothing: what can be made is made.
Result<void> Healing::make_lacking(const Directory &work)
{
    std::map<std::string, std::vector<Lack>> of_lost;
    Result<void> all;
    const auto note = [&all](Result<void> done) {
        if (all)
            all = std::move(done);
    };
    for (const Lack &lack : lacking_) {
        if (lack.has_image) {
            note(write_text(*lack.image));
            said_.push_back(lack.why + "; it is written again");
            continue;
        }
        if (lack.image->local.empty()) {
            note(Error(ENODATA, lack.why + "; no node has a copy of it"));
            continue;
        }
        const Result<std::string> copied = copy(*lack.image, work);
        if (copied)
            said_.push_back(fmt::format("the image of rank {} was copied from {}: {}",
                                        lack.image->rank, *copied, lack.why));
        else
            of_lost[lack.image->node].push_back(
                {lack.image, fmt::format("{}; {}", lack.why, copied.error().text())});
    }
    for (const auto &[node, lacking] : of_lost)
        note(rebuild_node(node, lacking, work));
    return all;
}

void Healing::look_at_sets()
{
    for (const SnapshotSet &set : snapshot_.sets) {
        const std::string name = fmt::format("the set of {}", fmt::join(set.nodes, ", "));
        std::vector<std::string> missing;
        const std::vector<NearLevel> levels = levels_of(set, "", missing);
        for (const std::string &one : missing)
            said_.push_back(fmt::format("{} lacks {}", name, one));
        std::vector<const Directory *> there;
        there.reserve(levels.size());
        for (const NearLevel &level : levels)
            there.push_back(&level.directory);
        if (there.empty())
            continue;
        const Result<redundancy::Rebuilt> checked = redundancy::rebuild(there, {}, trust_);
        if (!checked)
            said_.push_back(fmt::format("{}: {}", name, checked.error().text()));
        for (const Error &damage : checked ? checked->damaged : std::vector<Error>())
            said_.push_back(fmt::format("{}: {}", name, damage.text()));
    }
}

Result<void> Healing::run()
{
    for (const SnapshotImage &image : snapshot_.images) {
        if (std::optional<Lack> lack = lacks(image))
            lacking_.push_back(std::move(*lack));
    }
    if (!lacking_.empty()) {
        if (Result<void> own = check_own(all_.fd(), all_.path(), way_out); !own)
            return own;
        Result<WorkPlace> work = WorkPlace::make(all_);
        if (!work)
            return work.error();
        if (Result<void> made = make_lacking(work->here()); !made)
            return made;
    }
    if (look_ == Look::contents)
        look_at_sets();
    remove_brought();
    return {};
}

// All images are there.
void Healing::remove_brought() const
{
    const Result<Directory> brought = all_.enter(brought_name);
    if (!brought || !check_own(brought->fd(), brought->path(), way_out))
        return;
    brought->clear();
    static_cast<void>(all_.remove(brought_name));
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

Result<void> heal(const SnapshotStore &store, const Snapshot &snapshot, const Trust &trust,
                  Look look, std::vector<std::string> &said)
{
    const Result<Directory> all = enter_snapshot(store, snapshot, trust);
    if (!all)
        return all.error();
    return Healing(snapshot, trust, look, *all, said).run();
}

Result<size_t> bring(const SnapshotStore &store, const Snapshot &snapshot, const Trust &trust,
                     const std::string &node)
{
    const Result<Directory> all = enter_snapshot(store, snapshot, trust);
    if (!all)
        return all.error();
    if (Result<void> own = check_own(all->fd(), all->path(), way_out); !own)
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
