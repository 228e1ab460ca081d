// SPDX-License-Identifier: Apache-2.0
#include "resources/socket/socket_options.hpp"

#include "image/socket_options.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <fmt/format.h>
#include <netinet/in.h>
#include <string>

namespace cryo::resources {

namespace {

// Describes the option that could not be set, and for the interface of multicasts (IP_MULTICAST_IF)
// also the remedy.
std::string describe_failure(int level, int name, uint64_t value, int why)
{
    if (level == IPPROTO_IPV6 && name == IPV6_MULTICAST_IF && why == ENODEV)
        return "there is no network device here with the name of that by which a socket sends to "
               "groups of multicasts (IPV6_MULTICAST_IF): give one that name before the restart";
    if (image::is_unicast_interface(level, name) && why == ENODEV)
        return "there is no network device here with the name of that by which a socket sends "
               "(IP_UNICAST_IF, IPV6_UNICAST_IF): give one that name before the restart";
    if (level == IPPROTO_IP && name == IP_MULTICAST_IF && why == EADDRNOTAVAIL) {
        char address[INET_ADDRSTRLEN] = "";
        inet_ntop(AF_INET, &value, address, sizeof(address));
        return fmt::format("no network device here has the address {}, by which a socket sends to "
                           "multicast groups (IP_MULTICAST_IF): give one that address before "
                           "the restart",
                           address);
    }
    return fmt::format("setting option {} of level {} of a socket: {}", name, level, strerror(why));
}

} // namespace

Result<void> set_socket_options(int fd, const image::Socket &saved)
{
    for (size_t i = 0; i + 2 < saved.options.size(); i += 3) {
        const auto level = static_cast<int>(saved.options[i]);
        const auto name = static_cast<int>(saved.options[i + 1]);
        uint64_t now = 0;
        // Fixed by the addresses of a socket, and unchangeable once it has them.
        if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY &&
            (saved.state == image::SocketState::pair || saved.state == image::SocketState::kept))
            continue;
        if (level == SOL_PACKET && name == PACKET_FANOUT)
            continue;
        if (!image::read_socket_option(fd, level, name, now) || now == saved.options[i + 2])
            continue;
        if (const int why = image::set_socket_option(fd, level, name, saved.options[i + 2]);
            why != 0 && !(why == EOPNOTSUPP && image::is_fast_open(level, name))) // about speed
            return Error(why, describe_failure(level, name, saved.options[i + 2], why));
    }
    return {};
}

} // namespace cryo::resources
