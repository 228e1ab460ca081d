// SPDX-License-Identifier: Apache-2.0
#include "resources/socket/socket_places.hpp"

#include "base/fd.hpp"
#include "look/internet_address.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fmt/format.h>
#include <linux/un.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::resources {

SocketFile file_of(int socket)
{
    SocketFile found;
    const Fd file(ioctl(socket, SIOCUNIXFILE));
    struct stat status;
    if (!file || fstat(file.get(), &status) != 0)
        return found;
    found.is_known = true;
    found.is_removed = status.st_nlink == 0;
    char path[PATH_MAX];
    const std::string link = fmt::format("/proc/self/fd/{}", file.get());
    if (const ssize_t size = readlink(link.c_str(), path, sizeof(path)); size > 0)
        found.path.assign(path, static_cast<size_t>(size));
    return found;
}

bool has_absent_address(const capture::SocketLook &look)
{
    const capture::InternetAddress address(look.local);
    if ((look.domain != AF_INET && look.domain != AF_INET6) || look.local_is_unnamed ||
        address.is_any() || address.is_loopback())
        return false;
    sockaddr_storage storage = {};
    const size_t size = std::min(look.local.size(), sizeof(storage));
    memcpy(&storage, look.local.data(), size);
    // The port is at the same place in both families.
    reinterpret_cast<sockaddr_in &>(storage).sin_port = 0;
    const Fd probe(::socket(look.domain, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return probe &&
           bind(probe.get(), reinterpret_cast<const sockaddr *>(&storage),
                static_cast<socklen_t>(size)) != 0 &&
           errno == EADDRNOTAVAIL;
}

} // namespace cryo::resources
