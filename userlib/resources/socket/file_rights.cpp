// SPDX-License-Identifier: Apache-2.0
#include "resources/socket/file_rights.hpp"

#include "base/fd.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/un.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::resources {

namespace {

// Where others may rename files, another one may have come to the place since the bind, and root
// must not give it away. The kernel tells who administers the network which file it is; for all
// others a link, another kind of file and one with a further name are out of the question.
Result<Fd> file_of_bound(int socket, const char *path)
{
    Fd file(ioctl(socket, SIOCUNIXFILE));
    if (file)
        return file;
    file.reset(open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat now;
    if (!file || fstat(file.get(), &now) != 0)
        return Error::from_errno(fmt::format("looking at the socket {}", path), errno);
    if (!S_ISSOCK(now.st_mode) || now.st_nlink != 1)
        return Error(ESTALE, fmt::format("{}: another file has come to its place", path));
    return file;
}

} // namespace

Result<std::string> give_rights(int socket, const char *path, const FileRights &rights)
{
    constexpr uid_t any = ~0U;
    const Result<Fd> file = file_of_bound(socket, path);
    if (!file)
        return file.error();
    struct stat now;
    if (fstat(file->get(), &now) != 0)
        return Error::from_errno(fmt::format("looking at the socket {}", path), errno);
    int why = 0;
    const auto give = [&](uid_t uid, gid_t gid) {
        if (fchownat(file->get(), "", uid, gid, AT_EMPTY_PATH) != 0)
            why = errno;
    };
    if (rights.gid != any && rights.gid != now.st_gid)
        give(any, rights.gid);
    const std::string by_number = fmt::format("/proc/self/fd/{}", file->get());
    if (chmod(by_number.c_str(), rights.mode & 07777) != 0)
        return Error::from_errno(fmt::format("giving {} its mode", path), errno);
    // Last: a user who has given a file away may not be allowed the rest.
    if (rights.uid != any && rights.uid != now.st_uid)
        give(rights.uid, any);
    if (why == 0 || fstat(file->get(), &now) != 0)
        return std::string();
    return fmt::format("the socket {0} belongs to user {1} and group {2} now, and cannot be given "
                       "back to user {3} and group {4}: {5}; root does that by chown {3}:{4} {0}",
                       path, now.st_uid, now.st_gid, rights.uid, rights.gid, strerror(why));
}

} // namespace cryo::resources
