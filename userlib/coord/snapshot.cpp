// SPDX-License-Identifier: Apache-2.0
// What all users of global snapshots have in common: names, and the store as it can be read.
#include "coord/snapshot.hpp"

#include "coord/snapshot_removal.hpp"
#include "coord/snapshot_text.hpp"
#include "image/rank_groups.hpp"
#include "sys/own_variable.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>

namespace cryo::coord {

namespace {

constexpr const char *metadata_name = "global_snapshot_meta.data";
constexpr const char *base_variables[] = {"OMPI_MCA_hook_cryo_directory",
                                          "OMPI_MCA_snapc_base_global_snapshot_dir", "HOME"};

} // namespace

uint64_t Snapshot::bytes() const
{
    uint64_t total = counted_bytes;
    for (const SnapshotImage &image : images)
        total += counted == 0 ? image.bytes : 0;
    return total;
}

size_t Snapshot::local_images() const
{
    return static_cast<size_t>(std::ranges::count_if(
        images, [](const SnapshotImage &image) { return !image.local.empty(); }));
}

const SnapshotImage *Snapshot::image_of(uint32_t rank) const
{
    const auto at = std::ranges::lower_bound(images, rank, {}, &SnapshotImage::rank);
    return at != images.end() && at->rank == rank ? &*at : nullptr;
}

std::set<int> Snapshot::needs() const
{
    std::set<int> all;
    for (const SnapshotImage &image : images)
        all.insert(image.needs.begin(), image.needs.end());
    return all;
}

std::string default_reference(int launcher)
{
    return fmt::format("ompi_global_snapshot_{}.ckpt", launcher);
}

std::string rank_directory(uint32_t rank)
{
    return fmt::format("opal_snapshot_{}.ckpt", rank);
}

std::optional<uint32_t> rank_of(std::string_view directory)
{
    const size_t at = directory.find_first_of("0123456789");
    const int rank =
        at != std::string_view::npos ? seq_of(directory.substr(at, directory.find('.') - at)) : -1;
    const bool is_one = rank >= 0 && directory == rank_directory(static_cast<uint32_t>(rank));
    return is_one ? std::optional(static_cast<uint32_t>(rank)) : std::nullopt;
}

Result<Directory> enter_rank(const Directory &snapshot, uint32_t rank)
{
    Result<Directory> alone = snapshot.enter(rank_directory(rank));
    if (alone || alone.error().code() != ENOENT)
        return alone;
    const Result<Directory> group = snapshot.enter(image::group_directory(rank));
    if (!group)
        return group.error().code() == ENOENT ? std::move(alone) : group.error();
    return group->enter(rank_directory(rank));
}

std::string image_name(int pid)
{
    return fmt::format("cryo_context.{}", pid);
}

std::string file_in_level(uint32_t rank, int pid)
{
    return rank_directory(rank) + "/" + image_name(pid);
}

std::string default_base(const std::map<std::string, std::string> &variables)
{
    for (const char *name : base_variables) {
        const auto at = variables.find(name);
        if (at != variables.end() && at->second.starts_with('/'))
            return at->second;
    }
    const passwd *who = getpwuid(getuid());
    return who != nullptr ? who->pw_dir : "/";
}

std::string default_base()
{
    std::map<std::string, std::string> variables;
    for (const char *name : base_variables) {
        if (const char *value = sys::own_variable(name); value != nullptr)
            variables[name] = value;
    }
    return default_base(variables);
}

Result<void> write_local_metadata(const Directory &directory, const SnapshotImage &image)
{
    return directory.write(local_metadata_name, local_metadata_text(image));
}

Result<std::string> read_context(const Directory &directory, const std::string &metadata)
{
    const Result<std::string> text = directory.read(metadata);
    if (!text)
        return text.error();
    Result<std::string> context = context_in(*text);
    return context ? context : context.error().within(directory.path(metadata));
}

Result<std::optional<LocalCopy>> read_local_copy(const Directory &directory,
                                                 const std::string &metadata)
{
    const Result<std::string> text = directory.read(metadata);
    if (!text)
        return text.error();
    return local_copy_in(*text);
}

Result<SnapshotStore> SnapshotStore::open(const std::string &path)
{
    Result<Directory> directory = Directory::open(path);
    if (!directory && directory.error().code() == ENOENT)
        return Error(ENOENT, directory.error().text() + "; it is no global snapshot");
    if (!directory)
        return directory.error();
    SnapshotStore store(std::move(*directory));
    const Result<void> loaded = store.load();
    if (!loaded && loaded.error().code() == ENOENT)
        return Error(ENOENT,
                     loaded.error().text() + "; it is no global snapshot, or none was finished");
    if (!loaded)
        return loaded.error();
    return store;
}

Result<void> SnapshotStore::load(Depth depth)
{
    const Result<std::string> text = directory_.read(metadata_name);
    if (!text)
        return text.error();
    Result<std::map<int, Snapshot>> all = parse_metadata(*text, depth);
    if (!all)
        return all.error().within(directory_.path(metadata_name));
    snapshots_ = std::move(*all);
    return {};
}

// A rank without metadata keeps nobody from the others: check() names it.
Snapshot SnapshotStore::with_ranks(Snapshot snapshot) const
{
    if (snapshot.counted == 0)
        return snapshot;
    snapshot.images.clear();
    const Result<Directory> all = directory_.enter(std::to_string(snapshot.seq));
    for (uint32_t rank = 0; rank < snapshot.counted; rank++) {
        SnapshotImage &image = snapshot.images.emplace_back();
        image.rank = rank;
        image.is_counted = true;
        const Result<Directory> own = all ? enter_rank(*all, rank) : all.error();
        const Result<std::string> text = own ? own->read(local_metadata_name) : own.error();
        image.is_described = text && read_local_metadata(*text, image);
        if (!image.is_described)
            image.file.clear();
    }
    return snapshot;
}

Result<void> SnapshotStore::save() const
{
    return directory_.write(metadata_name, metadata_text(snapshots_));
}

const Snapshot *SnapshotStore::latest() const
{
    for (auto at = snapshots_.rbegin(); at != snapshots_.rend(); ++at) {
        if (at->second.finished)
            return &at->second;
    }
    return nullptr;
}

const Snapshot *SnapshotStore::find(int seq) const
{
    const auto at = snapshots_.find(seq);
    return at != snapshots_.end() && at->second.finished ? &at->second : nullptr;
}

std::string SnapshotStore::image_path(const Snapshot &snapshot, const SnapshotImage &image) const
{
    const Result<Directory> all = directory_.enter(std::to_string(snapshot.seq));
    const Result<Directory> rank =
        all && snapshot.counted != 0 ? enter_rank(*all, image.rank) : Error(ENOENT, "");
    return rank ? rank->path(image.file)
                : fmt::format("{}/{}/{}/{}", path(), snapshot.seq, rank_directory(image.rank),
                              image.file);
}

Result<void> check_trust(const Directory &directory, const std::string &file, const Trust &trust)
{
    if (Result<void> good = trust.check(directory.fd(), directory.path()); !good)
        return good;
    const Fd fd(openat(directory.fd(), file.c_str(),
                       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!fd)
        return Error::from_errno(directory.path(file), errno);
    return trust.check(fd.get(), directory.path(file));
}

Result<void> SnapshotStore::check_metadata(const Trust &trust) const
{
    return check_trust(directory_, metadata_name, trust);
}

Result<void> SnapshotStore::check(const Snapshot &snapshot, const Trust &trust) const
{
    if (snapshot.images.size() < snapshot.counted) // they are not read yet
        return check(with_ranks(snapshot), trust);
    if (Result<void> good = check_metadata(trust); !good)
        return good;
    std::vector<const SnapshotImage *> images;
    for (const SnapshotImage &image : snapshot.images)
        images.push_back(&image);
    Result<void> good = check_images(snapshot, trust, images);
    return good ? check_needs(snapshot, trust) : good;
}

// What deltas are based on. Whether it is the right one, each rank's restart looks: the delta has
// its id and its checksum.
Result<void> SnapshotStore::check_needs(const Snapshot &snapshot, const Trust &trust) const
{
    std::map<int, std::vector<const SnapshotImage *>> needed;
    std::map<int, Snapshot> counted; // each is read once
    const auto find_base = [&](int seq) -> const Snapshot * {
        const Snapshot *base = find(seq);
        if (base == nullptr || base->counted == 0)
            return base;
        if (!counted.contains(seq))
            counted.emplace(seq, with_ranks(*base));
        return &counted.at(seq);
    };
    const auto lacks = [&](int seq, const Error &error) {
        return error
            .within(fmt::format("snapshot {} has deltas that need snapshot {}", snapshot.seq, seq))
            .with_more("; bring that back, or take a snapshot that does not need it (--seq)");
    };
    for (const SnapshotImage &image : snapshot.images) {
        for (const int seq : image.needs) {
            const Snapshot *base = find_base(seq);
            const SnapshotImage *there = base != nullptr ? base->image_of(image.rank) : nullptr;
            if (there == nullptr)
                return lacks(seq, Error(ENOENT, fmt::format("{}: lists no image of rank {} there",
                                                            path(), image.rank)));
            needed[seq].push_back(there);
        }
    }
    for (const auto &[seq, images] : needed) {
        if (Result<void> good = check_images(*find(seq), trust, images); !good)
            return lacks(seq, good.error());
    }
    return {};
}

Result<void> SnapshotStore::check_images(const Snapshot &snapshot, const Trust &trust,
                                         const std::vector<const SnapshotImage *> &images) const
{
    const Result<Directory> all = directory_.enter(std::to_string(snapshot.seq));
    if (!all)
        return all.error();
    if (Result<void> good = trust.check(all->fd(), all->path()); !good)
        return good;
    for (const SnapshotImage *one : images) {
        const SnapshotImage &image = *one;
        const auto of_rank = [&](const Error &error) {
            return error.within(fmt::format("the image of rank {}", image.rank));
        };
        const Result<Directory> rank = enter_rank(*all, image.rank);
        if (!rank)
            return of_rank(rank.error());
        if (image.file.empty())
            return of_rank(
                Error(ENOENT, fmt::format("{}: names no image; `ompi-restart --heal` may "
                                          "write it again; or take another snapshot "
                                          "(--seq)",
                                          rank->path(local_metadata_name))));
        const std::string path = rank->path(image.file);
        const Result<std::optional<struct stat>> status = rank->look(image.file);
        if (!status)
            return of_rank(status.error());
        if (!status->has_value() || !S_ISREG((*status)->st_mode))
            return of_rank(Error::from_errno(path, ENOENT));
        if (static_cast<uint64_t>((*status)->st_size) != image.bytes)
            return Error(EINVAL, fmt::format("{}: has {} bytes, and had {} when it was made; take "
                                             "another snapshot (--seq)",
                                             path, (*status)->st_size, image.bytes));
        for (const std::string &file : {image.file, std::string(local_metadata_name)}) {
            if (Result<void> good = check_trust(*rank, file, trust); !good)
                return good;
        }
    }
    return {};
}

} // namespace cryo::coord
