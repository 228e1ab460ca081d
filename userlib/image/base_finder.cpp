// SPDX-License-Identifier: Apache-2.0
#include "image/base_finder.hpp"

#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

#include "base/fd.hpp"
#include "image/rank_groups.hpp"
#include "image/snapshot.hpp"

namespace cryo::image {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view rank_prefix = "opal_snapshot_"; // of a rank's directory

std::optional<Header> header_of(const std::string &path)
{
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    Header::Page page;
    if (!fd || pread(fd.get(), page.data(), page.size(), 0) != ssize_t(page.size()))
        return std::nullopt;
    auto header = Header::decode(page);
    return header ? std::optional(*header) : std::nullopt;
}

// Null if the file does not hold the image.
Result<std::shared_ptr<Image>> look_in(const std::string &path, const Digest &id,
                                       const OpenOptions &options)
{
    auto snapshot = Snapshot::open(path, options);
    if (!snapshot)
        return snapshot.error();
    for (const SnapshotMember &member : (*snapshot)->members()) {
        if (member.id != id || member.state != MemberState::saved)
            continue;
        auto image = (*snapshot)->open_member(member);
        if (!image)
            return image.error();
        return std::shared_ptr<Image>(std::move(*image));
    }
    return std::shared_ptr<Image>();
}

// The library opens no symbolic link, as it could restart another file than was meant. A base that
// the user names may be a link, because its id is checked.
std::string resolve(const std::string &path)
{
    std::error_code error;
    auto target = fs::canonical(path, error);
    return error ? path : target.string();
}

// In a snapshot's directory, with and without a group in between; none: it is no rank's.
std::vector<fs::path> places_of(const std::string &rank)
{
    if (!rank.starts_with(rank_prefix))
        return {};
    uint32_t number = 0;
    const char *end = rank.data() + rank.size();
    if (std::from_chars(rank.data() + rank_prefix.size(), end, number).ec != std::errc())
        return {rank};
    return {rank, fs::path(group_directory(number)) / rank};
}

// Directories of the same rank in the other snapshots of its job; none: it is no rank's.
std::vector<std::string> of_other_snapshots(const std::string &directory)
{
    std::vector<std::string> all;
    std::error_code error;
    const fs::path own = fs::canonical(directory, error);
    const std::vector<fs::path> places = places_of(own.filename());
    if (error || places.empty())
        return all;
    fs::path snapshot = own.parent_path();
    if (snapshot.filename().string().starts_with(group_prefix))
        snapshot = snapshot.parent_path();
    for (const auto &one : fs::directory_iterator(snapshot.parent_path(), error)) {
        std::error_code ignored;
        if (one.path() == snapshot || one.is_symlink(ignored))
            continue;
        for (const fs::path &place : places) {
            const fs::path other = one.path() / place;
            if (fs::is_directory(other, ignored) && !fs::is_symlink(other.parent_path(), ignored))
                all.push_back(other);
        }
    }
    return all;
}

} // namespace

std::optional<Digest> id_of_file(const std::string &path)
{
    auto header = header_of(path);
    return header ? std::optional(header->id) : std::nullopt;
}

Result<std::optional<Digest>> look_for_id(const Directory &directory, const std::string &name)
{
    const Fd fd(openat(directory.fd(), name.c_str(),
                       O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    struct stat status = {};
    if (!fd && (errno == ELOOP || errno == ENXIO)) // a link; a socket
        return std::optional<Digest>();
    if (!fd || fstat(fd.get(), &status) != 0)
        return Error::from_errno(directory.path(name), errno);
    if (!S_ISREG(status.st_mode))
        return std::optional<Digest>();
    Header::Page page;
    const ssize_t n = pread(fd.get(), page.data(), page.size(), 0);
    if (n < 0)
        return Error::from_errno(directory.path(name), errno);
    if (n != ssize_t(page.size()))
        return std::optional<Digest>();
    const auto header = Header::decode(page);
    return header ? std::optional(header->id) : std::nullopt;
}

Result<std::shared_ptr<Image>> BaseFinder::find(const std::string &beside, const Digest &id) const
{
    for (const std::string &name : named_) {
        const std::string path = resolve(name);
        auto found = look_in(path, id, options_for(path));
        if (!found || *found)
            return found;
    }
    std::optional<Error> refused; // of a file that would be it
    const std::string parent = fs::path(beside).parent_path();
    const std::string directory = parent.empty() ? "." : parent;
    Result<std::shared_ptr<Image>> found = find_in(directory, id, refused);
    if (found && *found)
        return found;
    const std::vector<std::string> others = of_other_snapshots(directory);
    for (const std::string &other : others) {
        found = find_in(other, id, refused);
        if (found && *found)
            return found;
    }
    if (refused)
        return *refused;
    return Error(ENOENT, others.empty() ? "not found beside it; name its file with --base"
                                        : "not found in the other snapshots of its job either; "
                                          "bring them back there, or name its file with --base");
}

// Null: it is not there. Of a file that is damaged, or is not trusted, the error is remembered.
Result<std::shared_ptr<Image>> BaseFinder::find_in(const std::string &directory, const Digest &id,
                                                   std::optional<Error> &refused) const
{
    std::error_code error;
    for (const auto &file : fs::directory_iterator(directory, error)) {
        const std::string path = file.path();
        bool has_id = false;
        if (file.is_directory(error)) {
            if (!fs::exists(file.path() / kTreeFile, error))
                continue;
        } else {
            const auto header = file.is_regular_file(error) ? header_of(path) : std::nullopt;
            has_id = header && header->id == id;
            if (!header || (!has_id && (header->hints & kHintMember) == 0))
                continue;
        }
        // A damaged file is skipped, as another one may hold the image.
        auto found = look_in(path, id, options_for(path));
        if (found && *found)
            return found;
        if (!found && (has_id || found.error().code() == EACCES))
            refused = found.error();
    }
    return std::shared_ptr<Image>();
}

OpenOptions BaseFinder::options_for(const std::string &path) const
{
    OpenOptions options;
    options.find_base = beside(path);
    options.trust = trust_;
    return options;
}

FindBase BaseFinder::beside(const std::string &path) const
{
    return [finder = *this, path](const Digest &id) { return finder.find(path, id); };
}

} // namespace cryo::image
