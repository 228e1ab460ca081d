// SPDX-License-Identifier: Apache-2.0
#include "base/open_found.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo {

namespace {

constexpr int looking = O_PATH | O_CLOEXEC;

Fd look_without_links(const std::string &path)
{
    open_how how = {};
    how.flags = looking;
    how.resolve = RESOLVE_NO_SYMLINKS;
    Fd found(static_cast<int>(syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof(how))));
    if (!found && (errno == ENOSYS || errno == EPERM)) // before Linux 5.6, and in some containers
        found.reset(open(path.c_str(), looking | O_NOFOLLOW));
    return found;
}

} // namespace

Result<Found> look_at(const std::string &path, Links links)
{
    Found found;
    found.path = path;
    if (links == Links::nowhere)
        found.fd = look_without_links(path);
    else
        found.fd.reset(open(path.c_str(), looking | (links == Links::followed ? 0 : O_NOFOLLOW)));
    if (!found.fd || fstat(found.fd.get(), &found.status) != 0)
        return Error::from_errno(path, errno);
    return found;
}

Result<Fd> open_found(const Found &found, int flags, Devices devices)
{
    const mode_t mode = found.status.st_mode;
    const bool opens_devices = (flags & (O_PATH | O_DIRECTORY)) == 0;
    if ((S_ISCHR(mode) || S_ISBLK(mode)) && opens_devices && devices == Devices::refused)
        return Error(EINVAL, found.path + ": is a device");
    return reopen(found.fd.get(), S_ISFIFO(mode) ? flags | O_NONBLOCK : flags, found.path);
}

Result<Fd> reopen(int fd, int flags, std::string_view what)
{
    const std::string path =
        fmt::format("/proc/self/fd/{}", fd); // a link, which has to be followed
    Fd again(open(path.c_str(), (flags & ~O_NOFOLLOW) | O_NOCTTY | O_CLOEXEC));
    if (!again)
        return Error::from_errno(what, errno);
    return again;
}

} // namespace cryo
