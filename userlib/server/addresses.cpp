// SPDX-License-Identifier: Apache-2.0
#include "server/addresses.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>

namespace cryo::server {

Result<std::vector<std::string>> addresses_of(const HostAndPort &at)
{
    addrinfo wanted = {};
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo *found = nullptr;
    if (const int error = getaddrinfo(at.host.c_str(), nullptr, &wanted, &found))
        return Error(ENOENT, fmt::format("{}: {}", at.host, gai_strerror(error)));
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
    std::vector<std::string> addresses;
    for (const addrinfo *one = all.get(); one != nullptr; one = one->ai_next) {
        char text[NI_MAXHOST];
        if (getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof(text), nullptr, 0,
                        NI_NUMERICHOST) == 0)
            addresses.emplace_back(static_cast<const char *>(text));
    }
    if (addresses.empty())
        return Error(ENOENT, at.host + ": has no address");
    return addresses;
}

} // namespace cryo::server
