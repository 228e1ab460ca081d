// SPDX-License-Identifier: Apache-2.0
#include "restore/common_memory.hpp"

#include "base/lent_mode.hpp"
#include "base/open_found.hpp"
#include "resources/reopening.hpp"
#include "sys/own_variable.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace cryo::restore {

namespace {

constexpr int as_ours = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

struct Locked {
    Fd file;
    bool is_new;
};

// False: another rank has removed it meanwhile.
bool has_name(int fd, const std::string &path)
{
    struct stat own, named;
    return fstat(fd, &own) == 0 && lstat(path.c_str(), &named) == 0 && own.st_dev == named.st_dev &&
           own.st_ino == named.st_ino;
}

// The rank that has made it may have given it its mode already, by which even its user may not open
// it. Any user may make files there.
Result<Fd> find(const std::string &path)
{
    const Result<Found> found = look_at(path, Links::not_at_end);
    if (!found)
        return found.error();
    if (!S_ISREG(found->status.st_mode) || found->status.st_uid != geteuid())
        return Error(EPERM, path + ": is another user's, or no file");
    return open_lent(*found, O_RDWR, [&] { return open_found(*found, O_RDWR | O_NONBLOCK); });
}

Result<Locked> make_or_find(const std::string &path)
{
    for (;;) {
        Fd file(open(path.c_str(), as_ours | O_CREAT | O_EXCL, 0600));
        const bool is_new = static_cast<bool>(file);
        if (!file && errno != EEXIST)
            return Error::from_errno(path, errno);
        if (!file) {
            Result<Fd> found = find(path);
            if (!found && found.error().code() == ENOENT)
                continue; // it has been removed in between
            if (!found &&
                found.error().code() == EWOULDBLOCK) { // or it is being removed, as a leftover
                poll(nullptr, 0, 1);
                continue;
            }
            if (!found)
                return found.error();
            file = std::move(*found);
        }
        while (flock(file.get(), LOCK_EX) != 0) {
            if (errno != EINTR)
                return Error::from_errno("waiting for " + path, errno);
        }
        if (has_name(file.get(), path))
            return Locked{std::move(file), is_new};
    }
}

} // namespace

std::optional<std::string> beside_for_ranks(const image::File &file)
{
    const char *job = sys::own_variable("CRYO_JOB"); // ID:SECRET:...
    const std::string_view text = job != nullptr ? job : "";
    const std::string_view id = text.substr(0, text.find(':'));
    if (id.empty() || id.find('/') != std::string_view::npos || !file.path.starts_with("/dev/shm/"))
        return {};
    return fmt::format("{}.cryo.{}", file.path, id);
}

Result<std::optional<Fd>> open_in_place(const image::File &file)
{
    // Looked at first: it may be a FIFO or a device by now, which notices being opened.
    const std::string path(file.path);
    const Result<Found> there = look_at(path, Links::followed);
    if (!there || !S_ISREG(there->status.st_mode) ||
        static_cast<uint64_t>(there->status.st_size) != file.size)
        return std::optional<Fd>();
    constexpr int flags = O_RDONLY | O_NONBLOCK; // no lease is waited for
    Result<Fd> fd = open_lent(*there, flags, [&] { return open_found(*there, flags); });
    if (!fd && beside_for_ranks(file))
        return Error(fd.error().code(),
                     fmt::format("{}: what is there cannot be read ({}), so whether another rank "
                                 "has brought it back is not known; remove it",
                                 path, strerror(fd.error().code())));
    return fd ? std::optional<Fd>(std::move(*fd)) : std::nullopt;
}

Result<std::optional<CommonMemory>>
CommonMemory::open(const std::string &beside, const std::function<Result<bool>()> &is_there)
{
    Result<Locked> locked = make_or_find(beside);
    if (!locked)
        return locked.error();
    // While it has this name, no rank has put it into its place.
    CommonMemory made = {Fd(), beside, std::move(locked->file)};
    const Result<bool> there = is_there();
    if (!there || *there) {
        if (locked->is_new)
            unlink(beside.c_str());
        if (!there)
            return there.error();
        return std::optional<CommonMemory>();
    }
    // The rank that has made it renames it; each of the others has a name of its own.
    if (!locked->is_new) {
        made.path = fmt::format("{}.{}", beside, getpid());
        if (link(beside.c_str(), made.path.c_str()) != 0)
            return Error::from_errno(made.path, errno);
    }
    const int fd = made.lock.get();
    Result<Fd> again =
        open_lent(fd, O_RDWR, [&] { return resources::open_again(fd, O_RDWR, beside); });
    if (!again) {
        unlink(made.path.c_str()); // if others know it, they make it anew
        return again.error();
    }
    made.fd = std::move(*again);
    return std::optional<CommonMemory>(std::move(made));
}

} // namespace cryo::restore
