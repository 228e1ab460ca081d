// SPDX-License-Identifier: Apache-2.0
#include "coord/heal.hpp"

#include "coord/healing_place.hpp"
#include "coord/image_copy.hpp"
#include "coord/node_copies.hpp"
#include "coord/undescribed.hpp"
#include "coord/verified_image.hpp"
#include "redundancy/encode.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <optional>
#include <sys/stat.h>
#include <utility>

namespace cryo::coord {

namespace {

constexpr const char *names_none = ": names no image";

std::vector<const Directory *> directories_of(const std::vector<NearLevel> &levels)
{
    std::vector<const Directory *> all;
    all.reserve(levels.size());
    for (const NearLevel &level : levels)
        all.push_back(&level.directory);
    return all;
}

class Healing
{
  public:
    Healing(const Snapshot &snapshot, const Trust &trust, Look look, const Directory &all,
            std::vector<std::string> &said)
        : snapshot_(snapshot), trust_(trust), look_(look), all_(all), copies_(snapshot, trust, all),
          said_(said)
    {}
    Result<void> run();

  private:
    struct Lack {
        const SnapshotImage *image;
        std::string why;
        bool has_image = false; // what it lacks is the text beside it
    };

    std::optional<Lack> lacks(const SnapshotImage &image) const;
    Result<void> write_again(const Lack &lack);
    Result<void> make_lacking(const Directory &work);
    Result<std::string> copy(const SnapshotImage &image, const Directory &work) const;
    Result<void> copy_from(const Directory &level, const SnapshotImage &image,
                           const Directory &work) const;
    Result<void> rebuild_node(const std::string &node, const std::vector<Lack> &lacking,
                              const Directory &work);
    Result<void> place(const SnapshotImage &image, const Directory &from) const;
    const SnapshotSet *set_of(const std::string &node) const;
    void look_at_sets();

    const Snapshot &snapshot_;
    const Trust &trust_;
    Look look_;
    const Directory &all_; // of the snapshot's images
    NodeCopies copies_;
    std::vector<Lack> lacking_;
    std::vector<std::string> &said_;
};

std::optional<Healing::Lack> Healing::lacks(const SnapshotImage &image) const
{
    if (std::optional<std::string> why = why_lacking(all_, image, look_))
        return Lack{&image, std::move(*why)};
    const Result<Directory> rank = enter_rank(all_, image.rank);
    const Result<std::optional<struct stat>> text =
        rank ? rank->look(local_metadata_name) : rank.error();
    if (!text)
        return Lack{&image, text.error().text()};
    const std::string path = rank->path(local_metadata_name);
    if (!text->has_value())
        return Lack{&image, Error::from_errno(path, ENOENT).text(), true};
    if (image.is_counted && !image.is_described)
        return Lack{&image, path + names_none, true};
    return std::nullopt;
}

Result<void> Healing::write_again(const Lack &lack)
{
    const SnapshotImage &image = *lack.image;
    const Result<Directory> rank = make_or_enter_rank(all_, image.rank);
    if (!rank)
        return rank.error();
    if (Result<void> written = write_local_metadata(*rank, image); !written)
        return written;
    said_.push_back(lack.why + "; it is written again" +
                    (image.is_counted ? fmt::format(" for the only image there, with the node of "
                                                    "the rank beside it ({})",
                                                    image.node)
                                      : ""));
    return {};
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
    const Result<Directory> rank = make_or_enter_rank(all_, image.rank);
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
    for (const auto where : {&NodeCopies::seen, &NodeCopies::brought}) {
        const Result<NearLevel> level = (copies_.*where)(image.node);
        const Result<void> copied =
            level ? copy_from(level->directory, image, work) : Result<void>(level.error());
        if (copied)
            return level->directory.path(rank_directory(image.rank));
        if (trouble.empty() || copied.error().code() != ENOENT)
            trouble += (trouble.empty() ? "" : "; ") + copied.error().text();
    }
    return Error(ENODATA, trouble);
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
    const std::vector<NearLevel> levels = copies_.of_set(*set, node, missing);
    const Result<Directory> fresh = work.make(fmt::format("node.{}", lacking.front().image->rank));
    if (!fresh)
        return fresh.error();
    const std::map<uint32_t, const Directory *> to = {{member, &*fresh}};
    const Result<redundancy::Rebuilt> rebuilt =
        redundancy::rebuild(directories_of(levels), to, trust_);
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
// error ends nothing: what can be made is made, and what else cannot is said.
Result<void> Healing::make_lacking(const Directory &work)
{
    std::map<std::string, std::vector<Lack>> of_lost;
    Result<void> all;
    const auto note = [this, &all](Result<void> done) {
        if (all)
            all = std::move(done);
        else if (!done)
            said_.push_back(done.error().text());
    };
    for (const Lack &lack : lacking_) {
        if (lack.has_image) {
            note(write_again(lack));
            continue;
        }
        if (lack.image->local.empty()) {
            note(Error(ENODATA,
                       lack.why + "; no node has a copy of it, so take another snapshot (--seq)"));
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
        const std::vector<NearLevel> levels = copies_.of_set(set, "", missing);
        for (const std::string &one : missing)
            said_.push_back(fmt::format("{} lacks {}", name, one));
        if (levels.empty())
            continue;
        const Result<redundancy::Rebuilt> checked =
            redundancy::rebuild(directories_of(levels), {}, trust_);
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
        if (Result<void> own = check_healable(all_); !own)
            return own;
        Result<WorkPlace> work = WorkPlace::make(all_);
        if (!work)
            return work.error();
        if (Result<void> made = make_lacking(work->here()); !made)
            return made;
    }
    if (look_ == Look::contents)
        look_at_sets();
    copies_.remove_brought();
    return {};
}

} // namespace

std::optional<std::string> why_lacking(const Directory &all, const SnapshotImage &image, Look look)
{
    const Result<Directory> rank = enter_rank(all, image.rank);
    if (!rank)
        return rank.error().text();
    if (image.file.empty())
        return rank->path(local_metadata_name) + names_none;
    const Result<std::optional<struct stat>> status = rank->look(image.file);
    if (!status)
        return status.error().text();
    const std::string path = rank->path(image.file);
    if (!status->has_value() || !S_ISREG((*status)->st_mode))
        return Error::from_errno(path, ENOENT).text();
    if (static_cast<uint64_t>((*status)->st_size) != image.bytes)
        return fmt::format("{}: has {} bytes, and had {}", path, (*status)->st_size, image.bytes);
    if (look == Look::sizes)
        return std::nullopt;
    if (image.checksum.empty()) { // of no level: what it has itself tells as much
        const Result<void> good = verify_image(*rank, image.file);
        return good ? std::nullopt : std::optional(good.error().text());
    }
    const Result<ImageCopy> found = measure_image(*rank, image.file);
    if (!found)
        return found.error().text();
    if (found->checksum != image.checksum)
        return path + ": is not what was saved (checksum)";
    return std::nullopt;
}

Result<void> heal(const SnapshotStore &store, const Snapshot &snapshot, const Trust &trust,
                  Look look, std::vector<std::string> &said)
{
    const Result<Directory> all = enter_snapshot(store, snapshot, trust);
    if (!all)
        return all.error();
    Snapshot whole = store.with_ranks(snapshot);
    if (look == Look::contents)
        find_undescribed(*all, whole);
    return Healing(whole, trust, look, *all, said).run();
}

} // namespace cryo::coord
