// SPDX-License-Identifier: Apache-2.0
#include "capture/multicast.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <netinet/in.h>
#include <sstream>
#include <string>
#include <sys/socket.h>

namespace cryo::capture {

namespace {

bool is_member(int fd, int level, uint32_t interface, const void *address, size_t size)
{
    group_filter asked = {};
    asked.gf_interface = interface;
    memcpy(&asked.gf_group, address, size);
    socklen_t room = sizeof(asked);
    return getsockopt(fd, level, MCAST_MSFILTER, &asked, &room) == 0;
}

// An interface's line begins with its index; its groups' lines follow, and begin with a tab and the
// address as a number of this machine.
bool has_joined_of_4(int fd)
{
    std::ifstream table("/proc/self/net/igmp");
    uint32_t interface = 0;
    for (std::string line; std::getline(table, line);) {
        if (!line.starts_with('\t')) {
            interface = static_cast<uint32_t>(strtoul(line.c_str(), nullptr, 10));
            continue;
        }
        sockaddr_in group = {};
        group.sin_family = AF_INET;
        group.sin_addr.s_addr = static_cast<in_addr_t>(strtoul(line.c_str(), nullptr, 16));
        if (is_member(fd, IPPROTO_IP, interface, &group, sizeof(group)))
            return true;
    }
    return false;
}

bool has_joined_of_6(int fd)
{
    std::ifstream table("/proc/self/net/igmp6");
    for (std::string line; std::getline(table, line);) {
        std::istringstream words(line);
        uint32_t interface = 0;
        std::string name, address;
        words >> interface >> name >> address;
        sockaddr_in6 group = {};
        group.sin6_family = AF_INET6;
        for (size_t i = 0; i < sizeof(group.sin6_addr) && 2 * i + 1 < address.size(); i++)
            group.sin6_addr.s6_addr[i] =
                static_cast<uint8_t>(strtoul(address.substr(2 * i, 2).c_str(), nullptr, 16));
        if (is_member(fd, IPPROTO_IPV6, interface, &group, sizeof(group)))
            return true;
    }
    return false;
}

} // namespace

bool has_joined_group(int fd, int domain)
{
    // One of IPv6 may be in groups of both; a raw one answers that it has no such option.
    return has_joined_of_4(fd) || (domain == AF_INET6 && has_joined_of_6(fd));
}

bool is_multicast_router_here()
{
    std::ifstream interfaces("/proc/self/net/ip6_mr_vif");
    std::string line;
    return std::getline(interfaces, line) && std::getline(interfaces, line);
}

} // namespace cryo::capture
