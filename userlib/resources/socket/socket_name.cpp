// SPDX-License-Identifier: Apache-2.0
#include "resources/socket/socket_name.hpp"

#include "base/left_over.hpp"
#include "base/lent_mode.hpp"
#include "base/open_found.hpp"
#include "look/socket_look.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace cryo::resources {

SocketName::SocketName(image::Bytes bytes)
    : size(static_cast<socklen_t>(std::min(bytes.size(), sizeof(storage) - 1))) // path() ends
{
    if (size != 0)
        memcpy(&storage, bytes.data(), size);
}

std::string SocketName::text() const
{
    return capture::printable_address(std::string(reinterpret_cast<const char *>(&storage), size));
}

const char *SocketName::path() const
{
    const auto &local = reinterpret_cast<const sockaddr_un &>(storage);
    if (storage.ss_family != AF_UNIX || size <= offsetof(sockaddr_un, sun_path) ||
        local.sun_path[0] == 0)
        return nullptr;
    return local.sun_path;
}

Result<SocketName> SocketName::beside(std::string_view file) const
{
    const std::string_view whole = path() == nullptr ? "" : path();
    const std::string_view directory = whole.substr(0, whole.rfind('/') + 1);
    if (whole.empty() || file.empty() || file == "." || file == ".." ||
        file.find('/') != file.npos || file.find('\0') != file.npos)
        return Error(EINVAL, "what a socket's file was renamed to is no name");
    if (directory.size() + file.size() >= sizeof(sockaddr_un::sun_path))
        return Error(EINVAL, "what a socket's file was renamed to is too long");
    sockaddr_un made = {};
    made.sun_family = AF_UNIX;
    memcpy(made.sun_path, directory.data(), directory.size());
    memcpy(made.sun_path + directory.size(), file.data(), file.size());
    const size_t used = offsetof(sockaddr_un, sun_path) + directory.size() + file.size() + 1;
    return SocketName(image::Bytes(reinterpret_cast<const uint8_t *>(&made), used));
}

// The NUL at its end goes to the front. A name of maximal length has none and loses its end.
std::vector<uint8_t> without_file(image::Bytes name)
{
    constexpr size_t path = offsetof(sockaddr_un, sun_path);
    std::vector<uint8_t> abstract(name.begin(), name.end());
    std::copy(name.begin() + path, name.end() - 1, abstract.begin() + path + 1);
    abstract[path] = 0;
    return abstract;
}

InDirectory::InDirectory(const std::string &path)
    : before_(open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)), there_(chdir(path.c_str()) == 0)
{}

InDirectory::~InDirectory()
{
    if (there_ && fchdir(before_.get()) != 0)
        there_ = false;
}

namespace {

// The error is ECONNREFUSED if the file is of no socket any more.
Result<Fd> call_socket(const Found &found, int kind)
{
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    *fmt::format_to(address.sun_path, "/proc/self/fd/{}", found.fd.get()) = 0;
    Fd caller(socket(AF_UNIX, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!caller)
        return Error::from_errno("making a socket", errno);
    if (connect(caller.get(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) != 0)
        return Error::from_errno(found.path, errno);
    return caller;
}

} // namespace

Result<void> remove_stale(const SocketName &name, int kind)
{
    const char *path = name.path();
    if (path == nullptr)
        return {};
    const Result<Found> found = look_at(path, Links::not_at_end);
    if (!found)
        return {}; // if it is there, bind(2) says why it cannot be had
    if (!S_ISSOCK(found->status.st_mode))
        return Error(EEXIST, fmt::format("{} stands where a socket was; remove it", path));
    // Only a caller that may write to a socket is heard, be it the owner.
    const Result<Fd> called =
        open_lent(*found, O_WRONLY, [&] { return call_socket(*found, kind); });
    if (!called && called.error().code() == EACCES)
        return Error(EACCES,
                     fmt::format("the socket {}: its mode (owner {}, mode {:04o}) forbids "
                                 "to ask whether somebody uses it; remove it if nobody "
                                 "does",
                                 path, found->status.st_uid, found->status.st_mode & 07777U));
    if (called || called.error().code() != ECONNREFUSED)
        return Error(EADDRINUSE, fmt::format("somebody uses the socket {}", path));
    if (unlink(path) != 0)
        return Error::from_errno(fmt::format("removing the old socket {}", path), errno);
    return {};
}

SocketRenames::~SocketRenames()
{
    for (const OnItsWay &one : all_)
        unlink(one.hidden.c_str());
}

Result<void> SocketRenames::leave(const SocketName &old, const SocketName &renamed, int kind)
{
    const std::string from = old.path();
    const std::string place = from.substr(0, from.rfind('/') + 1);
    if (const Result<Directory> there = Directory::open(place + "."); there)
        sweep_left_sockets(*there);
    std::string hidden = place + name_for_now("");
    Fd placeholder(mkostemp(hidden.data(), O_CLOEXEC)); // the file takes its place
    const bool is_made = static_cast<bool>(placeholder);
    placeholder.reset();
    if (is_made && rename(from.c_str(), hidden.c_str()) == 0) {
        all_.push_back({std::move(hidden), from, renamed, kind});
        return {};
    }
    const int why = errno;
    if (is_made)
        unlink(hidden.c_str());
    unlink(from.c_str());
    return Error::from_errno(
        fmt::format("renaming the socket {}, which is to be {}", from, renamed.path()), why);
}

Result<void> SocketRenames::arrive()
{
    for (; !all_.empty(); all_.pop_back()) {
        const OnItsWay &one = all_.back();
        if (Result<void> removed = remove_stale(one.renamed, one.kind); !removed)
            return removed;
        const char *from = one.hidden.c_str(), *to = one.renamed.path();
        // Where a rename has no flags (NFS, 9p), a link refuses a taken name.
        if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) != 0 &&
            (errno != EINVAL || link(from, to) != 0 || unlink(from) != 0))
            return Error::from_errno(fmt::format("renaming the socket {} to {}", one.old, to),
                                     errno);
    }
    return {};
}

} // namespace cryo::resources
