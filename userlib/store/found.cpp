// SPDX-License-Identifier: Apache-2.0
#include "store/found.hpp"

#include "base/directory.hpp"
#include "base/path.hpp"
#include "base/trust.hpp"
#include "coord/snapshot.hpp"
#include "image/base_finder.hpp"
#include "image/needed_files.hpp"
#include "image/rank_groups.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <sys/stat.h>

namespace cryo::store {

namespace {

constexpr const char *job_metadata = "global_snapshot_meta.data";

using Names = std::vector<std::string>;

Result<Directory> enter(const std::string &top, const Names &way)
{
    Result<Directory> at = Directory::open(top);
    for (const std::string &name : way) {
        if (!at)
            break;
        at = at->enter(name);
    }
    return at;
}

// Below `top` no link is followed.
Result<Fd> open_file(const std::string &top, const Names &way, const std::string &name)
{
    const Result<Directory> directory = enter(top, way);
    if (!directory)
        return directory.error();
    const std::string path = directory->path(name);
    Fd file(openat(directory->fd(), name.c_str(),
                   O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    struct stat status = {};
    if (!file || fstat(file.get(), &status) != 0)
        return Error::from_errno(path, errno);
    if (!S_ISREG(status.st_mode))
        return Error(EINVAL, path + ": is no regular file");
    if (Result<void> good = Trust().check(file.get(), path); !good)
        return good.error();
    return file;
}

Content content(const std::string &top, Names way, const std::string &name)
{
    std::string whole;
    for (const std::string &part : way)
        whole += part + "/";
    return {whole + name, [top, way = std::move(way), name] { return open_file(top, way, name); }};
}

struct Found {
    std::string name;
    image::FileId id;
};

// EAGAIN: another file has the name by now, as with the last image of a series: what that one needs
// was not looked for.
Content content(const std::string &top, const Found &found)
{
    return {found.name, [top, found]() -> Result<Fd> {
                Result<Fd> file = open_file(top, {}, found.name);
                struct stat status = {};
                if (!file || (fstat(file->get(), &status) == 0 &&
                              image::FileId(status.st_dev, status.st_ino) == found.id))
                    return file;
                return Error(EAGAIN, top + "/" + found.name + ": was replaced meanwhile");
            }};
}

// Regular files, and others that have no place there; not the directories.
Result<Names> files_in(const std::string &top, const Names &way)
{
    const Result<Directory> directory = enter(top, way);
    const Result<Names> names = directory ? directory->names() : directory.error();
    if (!names)
        return names.error();
    Names files;
    for (const std::string &name : *names) {
        const Result<std::optional<struct stat>> status = directory->look(name);
        if (!status)
            return status.error();
        if (*status && !S_ISDIR((*status)->st_mode))
            files.push_back(name);
    }
    std::ranges::sort(files);
    return files;
}

// Of one directory.
class ImageFiles
{
  public:
    explicit ImageFiles(std::string directory) : directory_(std::move(directory)) {}

    // One name of each; `own`, if that is one. The last image of a series has `latest`, too.
    Result<std::vector<Found>> with(const std::vector<image::FileId> &wanted,
                                    const std::string &own) const
    {
        const Result<Directory> directory = Directory::open(directory_);
        const Result<Names> names = files_in(directory_, {});
        if (!directory || !names)
            return directory ? names.error() : directory.error();
        std::vector<Found> found;
        for (const std::string &name : *names) {
            const Result<std::optional<struct stat>> status = directory->look(name);
            if (!status || !*status)
                continue;
            const image::FileId id((*status)->st_dev, (*status)->st_ino);
            if (std::ranges::find(wanted, id) == wanted.end())
                continue;
            const auto known = std::ranges::find(found, id, &Found::id);
            if (known == found.end())
                found.push_back({name, id});
            else if (name == own)
                known->name = name;
        }
        return found;
    }

  private:
    std::string directory_;
};

Result<Contents> image_at(const std::string &path)
{
    const auto trust = std::make_shared<const Trust>();
    const Result<std::unique_ptr<image::Snapshot>> snapshot = image::Snapshot::open(
        path, {.find_base = image::BaseFinder({}, trust).beside(path), .trust = trust});
    if (!snapshot)
        return snapshot.error();
    const image::NeededFiles needs = image::needed_files(**snapshot);
    if (needs.broken)
        return *needs.broken;
    const auto [parent, own] = split_path(path);
    const bool is_directory = (*snapshot)->is_directory();
    const std::string top = is_directory ? path : parent;
    const Result<std::vector<Found>> found = ImageFiles(top).with(needs.files, own);
    if (!found)
        return found.error();
    if (found->size() < needs.files.size())
        return Error(ENOTSUP,
                     fmt::format("{}: is based on an image that does not lie beside it", path));
    Contents contents{.kind = is_directory ? Kind::directory : Kind::image,
                      .name = own,
                      .root = is_directory ? "" : own,
                      .files = {}};
    for (const Found &one : *found)
        contents.files.push_back(content(top, one));
    if (is_directory)
        contents.files.push_back(content(top, {}, image::kTreeFile));
    return contents;
}

// The text that the snapshots were read from.
Result<std::pair<coord::SnapshotStore, std::string>> open_store(const std::string &path)
{
    constexpr int most = 100;
    for (int tries = 0; tries < most; tries++) {
        const Result<Directory> directory = Directory::open(path);
        Result<std::string> before = directory ? directory->read(job_metadata) : directory.error();
        Result<coord::SnapshotStore> snapshots = coord::SnapshotStore::open(path);
        if (!snapshots)
            return snapshots.error();
        const Result<std::string> after = snapshots->directory().read(job_metadata);
        if (before && after && *before == *after)
            return std::pair(std::move(*snapshots), std::move(*before));
    }
    return Error(EBUSY, path + ": is changed all the time");
}

Result<void> add_files(Contents &contents, const std::string &top, const Names &way)
{
    const Result<Names> names = files_in(top, way);
    if (!names)
        return names.error();
    for (const std::string &name : *names)
        contents.files.push_back(content(top, way, name));
    return {};
}

// Below the directory of the job, to that of a rank.
Names way_to_rank(const std::string &top, const coord::Snapshot &snapshot, uint32_t rank)
{
    const std::string number = std::to_string(snapshot.seq);
    Names grouped = {number, image::group_directory(rank), coord::rank_directory(rank)};
    if (snapshot.counted != 0 && enter(top, grouped))
        return grouped;
    return {number, coord::rank_directory(rank)};
}

Result<Contents> job_at(const std::string &path)
{
    const Result<std::pair<coord::SnapshotStore, std::string>> opened = open_store(path);
    if (!opened)
        return opened.error();
    const auto &[snapshots, text] = *opened;
    const Trust trust;
    if (Result<void> good = snapshots.check_metadata(trust); !good)
        return good.error();
    Result<Fd> metadata = file_of_text(text);
    if (!metadata)
        return metadata.error();
    const auto kept = std::make_shared<Fd>(std::move(*metadata));
    Contents contents{.kind = Kind::snapshot, .name = split_path(path).second, .files = {}};
    contents.files.push_back({job_metadata, [kept]() -> Result<Fd> {
                                  Fd again(fcntl(kept->get(), F_DUPFD_CLOEXEC, 3));
                                  if (!again)
                                      return Error::from_errno(job_metadata, errno);
                                  return again;
                              }});
    for (const auto &[seq, listed] : snapshots.snapshots()) {
        if (!listed.finished)
            continue;
        const coord::Snapshot snapshot = snapshots.with_ranks(listed);
        if (Result<void> whole = snapshots.check(snapshot, trust); !whole)
            return whole.error();
        Result<void> added = add_files(contents, path, {std::to_string(seq)});
        for (const coord::SnapshotImage &image : snapshot.images) {
            if (added)
                added = add_files(contents, path, way_to_rank(path, snapshot, image.rank));
        }
        if (!added)
            return added.error();
    }
    if (contents.files.size() == 1)
        return Error(ENOENT, path + ": has no finished snapshot");
    return contents;
}

} // namespace

Result<Contents> contents_of(const std::string &named)
{
    std::string path = absolute_path(named);
    if (path.ends_with('/'))
        path.pop_back();
    struct stat status = {};
    if (stat((path + "/" + job_metadata).c_str(), &status) == 0)
        return job_at(path);
    return image_at(path);
}

} // namespace cryo::store
