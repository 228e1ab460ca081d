// SPDX-License-Identifier: Apache-2.0
#include "restore/mapped_files.hpp"

#include "base/lent_mode.hpp"
#include "restore/open_parts.hpp"
#include "restore/trusted_path.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>

namespace cryo::restore {

using image::RegionKind;

namespace {

Error refusal(const image::File &file, std::string_view why)
{
    return Error(
        EINVAL,
        fmt::format(
            "the mapped file {} {}; restart where this file is unchanged (--force restarts anyway)",
            file.path, why));
}

// Private mappings: code and constants, which the program relies on.
Result<void> check_private(const Planning &p, const image::File &file, MappedFile &found)
{
    if (!found.identity) {
        Result<capture::Identity> now =
            capture::identify(fmt::format("/proc/self/fd/{}", found.fd));
        if (!now)
            return refusal(file, "cannot be read: " + now.error().text());
        found.identity = std::move(*now);
    }
    if (p.options.force)
        return {};
    if (!file.build_id.empty())
        return std::ranges::equal(file.build_id, found.identity->build_id)
                   ? Result<void>()
                   : refusal(file, "is another build");
    if (found.size != file.size)
        return refusal(file, "has another size");
    if (!file.content_hash.empty() &&
        !std::ranges::equal(file.content_hash, found.identity->content_hash))
        return refusal(file, "has other contents");
    return {};
}

// A shared file's contents may have changed, but the mapped size must be there.
Result<void> check_shared(const image::File &file, const MappedFile &found)
{
    if (found.size < file.size)
        return Error(EINVAL, fmt::format("the mapped file {} has shrunk: {} bytes, {} when the "
                                         "image was taken",
                                         file.path, found.size, file.size));
    return {};
}

// A writable shared mapping needs a writable descriptor.
bool is_written(const Planning &p, uint32_t file)
{
    return std::ranges::any_of(p.saved.regions(), [&](const image::Region &region) {
        return region.file == file && (region.flags & image::kRegionShared) != 0 &&
               (region.prot & PROT_WRITE) != 0;
    });
}

Error not_found(const Planning &p, const image::File &file, RegionKind kind, const Error &why)
{
    constexpr int not_there[] = {ENOENT, ENOTDIR, EACCES, ELOOP, ENXIO, ENODEV};
    if (std::ranges::find(not_there, why.code()) == std::end(not_there))
        return why;
    if (kind == RegionKind::private_file)
        return refusal(file, "is not there: " + why.text());
    // A file that the program only reads is not saved.
    return Error(why.code(),
                 fmt::format("the mapped file {}: {}; put it back{}", file.path,
                             strerror(why.code()),
                             is_written(p, file.id)
                                 ? ", or save its contents next time (cr_checkpoint --save-shared)"
                                 : ""));
}

// Whether the image has its contents, so that it is made again where it is gone.
bool is_made_again(const image::File &file, RegionKind kind)
{
    constexpr uint32_t both = image::kFileUnlinked | image::kFileContentsSaved;
    return kind == RegionKind::private_file ? (file.flags & both) == both
                                            : (file.flags & both) != 0;
}

Result<void> open_mapped(Planning &p, const image::File &file, RegionKind kind)
{
    const bool is_open = p.file_fds.contains(file.id);
    const bool made_again = is_made_again(file, kind);
    if (made_again && is_open)
        return {};
    Result<MappedFile *> found = p.mapped->find(p, file, is_written(p, file.id));
    if (!found)
        return not_found(p, file, kind, found.error());
    if (!is_open)
        p.mapped_fds[file.id] = (*found)->fd;
    if (made_again)
        return {};
    if (kind == RegionKind::private_file)
        return check_private(p, file, **found);
    return kind == RegionKind::shared_file ? check_shared(file, **found) : Result<void>();
}

} // namespace

Result<MappedFile *> MappedFiles::find(Planning &p, const image::File &file, bool writes)
{
    const std::tuple key(std::string(file.path), file.uid, writes);
    if (const auto known = all_.find(key); known != all_.end())
        return &known->second;
    Result<Found> found = find_trusted(p.options, file);
    if (!found)
        return found.error();
    const int flags = writes ? O_RDWR : O_RDONLY;
    Result<Fd> opened =
        open_lent(*found, flags, [&] { return open_again(found->fd.get(), flags, file.path); });
    if (!opened)
        return opened.error();
    struct stat now = {};
    if (fstat(opened->get(), &now) != 0)
        return Error::from_errno(fmt::format("looking at {}", file.path), errno);
    Result<int> kept = keep_open(p, std::move(*opened), 0);
    if (!kept)
        return kept.error();
    return &all_.emplace(key, MappedFile{*kept, static_cast<uint64_t>(now.st_size), {}})
                .first->second;
}

Result<int> MappedFiles::directory(Planning &p, const std::string &path,
                                   const std::set<uint32_t> &owners)
{
    const auto key = std::pair(path, owners);
    if (const auto known = directories_.find(key); known != directories_.end())
        return known->second;
    image::File directory;
    directory.path = path;
    Result<Found> found = Error(EPERM, path);
    for (const uint32_t owner : owners) {
        directory.uid = owner;
        found = find_trusted(p.options, directory);
        if (found || found.error().code() != EPERM)
            break;
    }
    if (!found)
        return found.error();
    Result<int> kept = keep_open(p, std::move(found->fd), 0);
    if (kept)
        directories_.emplace(key, *kept);
    return kept;
}

int fd_to_map(const Planning &p, const image::Region &region)
{
    const auto inherited = p.file_fds.find(region.file);
    return inherited != p.file_fds.end() ? inherited->second : p.mapped_fds.at(region.file);
}

Result<void> check_mapped_files(Planning &p)
{
    std::set<std::pair<uint32_t, RegionKind>> done;
    for (const image::Region &region : p.saved.regions()) {
        if (!needs_file(region) || !done.emplace(region.file, region.kind).second)
            continue;
        const auto file = p.saved.files().find(region.file);
        if (file == p.saved.files().end())
            return Error(EINVAL, "a memory region refers to no file");
        if (Result<void> good = open_mapped(p, file->second, region.kind); !good)
            return good;
    }
    return {};
}

} // namespace cryo::restore
