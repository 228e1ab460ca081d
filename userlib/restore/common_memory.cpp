// SPDX-License-Identifier: Apache-2.0
#include "restore/common_memory.hpp"

#include "resources/reopening.hpp"
#include "sys/own_variable.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
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

// Any user may make files there.
Result<void> check_owner(int fd, const std::string &path)
{
    struct stat now;
    if (fstat(fd, &now) != 0)
        return Error::from_errno(path, errno);
    if (!S_ISREG(now.st_mode) || now.st_uid != geteuid())
        return Error(EPERM, path + ": is another user's, or no file");
    return {};
}

Result<Locked> make_or_find(const std::string &path)
{
    for (;;) {
        Fd file(open(path.c_str(), as_ours | O_CREAT | O_EXCL, 0600));
        const bool is_new = static_cast<bool>(file);
        if (!file && errno == EEXIST)
            file = Fd(open(path.c_str(), as_ours));
        if (!file && errno == ENOENT)
            continue; // it has been removed in between
        if (!file)
            return Error::from_errno(path, errno);
        if (Result<void> good = check_owner(file.get(), path); !good)
            return good.error();
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
    Result<Fd> again = resources::open_again(made.lock.get(), O_RDWR, beside);
    if (!again) {
        unlink(made.path.c_str()); // if others know it, they make it anew
        return again.error();
    }
    made.fd = std::move(*again);
    return std::optional<CommonMemory>(std::move(made));
}

} // namespace cryo::restore
