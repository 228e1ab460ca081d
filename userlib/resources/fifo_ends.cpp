// SPDX-License-Identifier: Apache-2.0
#include "resources/fifo_ends.hpp"

#include "base/left_over.hpp"
#include "base/open_found.hpp"
#include "base/trust.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace cryo::resources {

using image::FileKind;

namespace {

Error not_opened(const std::string &path, int why)
{
    return Error(why, fmt::format("FIFO {}: {}; make it again (mkfifo)", path, strerror(why)));
}

bool is_missing(const std::string &path)
{
    return access(path.c_str(), F_OK) != 0 && errno == ENOENT;
}

// Nothing but a FIFO is opened.
Result<Ends> both_ends(const Found &found)
{
    if (!S_ISFIFO(found.status.st_mode))
        return Error(EINVAL, fmt::format("{} is no longer a FIFO", found.path));
    // Opened for reading and writing, it waits for no peer.
    Result<Fd> opened = open_found(found, O_RDWR | O_NONBLOCK);
    if (!opened)
        return not_opened(found.path, opened.error().code());
    Ends ends{std::move(*opened), Fd()};
    ends.writer.reset(fcntl(ends.reader.get(), F_DUPFD_CLOEXEC, 3));
    if (!ends.writer)
        return Error::from_errno(fmt::format("opening FIFO {}", found.path), errno);
    return ends;
}

// The FIFO is made in a directory of its own, so that no other process takes its name first; and
// where no other user can rename that directory.
Result<Ends> fifo_for_a_moment(const Opening &opening, const std::string &place)
{
    const Fd there(open(place.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!there || !opening.trust().keeps_names(there.get()))
        return Error(EPERM, place + ": another user may rename what is made there");
    const Result<DirectoryForNow> directory = DirectoryForNow::make(place);
    if (!directory)
        return directory.error().within("making a temporary FIFO");
    const std::string path = directory->path + "/fifo";
    const bool made = mkfifo(path.c_str(), 0600) == 0;
    const Result<Found> found =
        made ? look_at(path, Links::not_at_end) : Error::from_errno(path, errno);
    Result<Ends> ends =
        found ? both_ends(*found)
              : Error::from_errno("making a FIFO for a moment, " + path, found.error().code());
    unlink(path.c_str());
    rmdir(directory->path.c_str());
    return ends;
}

// A FIFO without a name gets a temporary one.
Result<Ends> fifo_without_name(const Opening &opening, const image::File &file)
{
    const std::string place(file.path.substr(0, std::max<size_t>(file.path.rfind('/'), 1)));
    Result<Ends> ends = fifo_for_a_moment(opening, place);
    if (!ends)
        ends = fifo_for_a_moment(opening, "/tmp");
    if (ends)
        fchmod(ends->reader.get(), file.mode & 07777);
    return ends;
}

// Both ends of a FIFO that has a name. One that was removed since the checkpoint is made again,
// because the image has all its contents.
Result<Ends> fifo_by_name(const Opening &opening, const image::File &file, bool &made)
{
    const std::string path(file.path);
    made = is_missing(path) && mkfifo(path.c_str(), 0600) == 0;
    const Result<Found> found = opening.find(file);
    if (!found) {
        const int why = found.error().code();
        if (made)
            unlink(path.c_str());
        return why == EPERM ? found.error() : not_opened(path, why);
    }
    Result<Ends> ends = both_ends(*found);
    if (made && ends)
        fchmod(ends->reader.get(), file.mode & 07777);
    return ends;
}

// A FIFO's second name, in the directory that trusted users have put there.
struct OtherName {
    std::string name; // in the directory
    Found directory;
};

Result<OtherName> other_name_of(const Opening &opening, const image::File &file)
{
    const std::string path(file.link);
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos)
        return Error(EINVAL, path);
    const std::string parent = path.substr(0, std::max<size_t>(slash, 1));
    image::File directory = file;
    directory.kind = FileKind::directory;
    directory.path = parent;
    Result<Found> found = opening.find(directory);
    if (!found)
        return found.error();
    return OtherName{path.substr(slash + 1), std::move(*found)};
}

// Gives the FIFO its other name. Where that cannot be, as in a directory that is gone, it is back
// with one name. What has the name now stays, as its user would never meet the program.
Result<void> add_name(Opening &opening, const Ends &ends, const image::File &file)
{
    const Result<OtherName> other = other_name_of(opening, file);
    const std::string fifo = fmt::format("/proc/self/fd/{}", ends.reader.get());
    int why = other ? 0 : other.error().code();
    if (other && linkat(AT_FDCWD, fifo.c_str(), other->directory.fd.get(), other->name.c_str(),
                        AT_SYMLINK_FOLLOW) != 0)
        why = errno;
    if (why == 0)
        return {};
    struct stat ours, there;
    const bool is_taken = other && fstatat(other->directory.fd.get(), other->name.c_str(), &there,
                                           AT_SYMLINK_NOFOLLOW) == 0;
    if (is_taken && fstat(ends.reader.get(), &ours) == 0 && ours.st_dev == there.st_dev &&
        ours.st_ino == there.st_ino)
        return {};
    if (is_taken)
        return Error(EEXIST,
                     fmt::format("FIFO {}: this was another name of a FIFO that the program has "
                                 "open, and is another file now; remove it",
                                 file.link));
    opening.notice(fmt::format("FIFO {} does not get its other name, {}: {}", file.path, file.link,
                               strerror(why)));
    return {};
}

} // namespace

Result<Ends> open_fifo(Opening &opening, const image::File &file)
{
    if ((file.flags & image::kFileUnlinked) != 0)
        return fifo_without_name(opening, file);
    image::File by = file;
    if (!file.link.empty() && is_missing(std::string(file.path)) &&
        !is_missing(std::string(file.link)))
        std::swap(by.path, by.link);
    bool made = false;
    Result<Ends> ends = fifo_by_name(opening, by, made);
    if (!ends || by.link.empty())
        return ends;
    if (Result<void> added = add_name(opening, *ends, by); !added) {
        if (made)
            unlink(std::string(by.path).c_str());
        return added.error();
    }
    return ends;
}

} // namespace cryo::resources
