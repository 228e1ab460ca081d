// SPDX-License-Identifier: Apache-2.0
#include "look/multicast.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sstream>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <utility>

namespace cryo::capture {

namespace {

template <class Address>
std::string as_bytes(const Address &address)
{
    return {reinterpret_cast<const char *>(&address), sizeof(address)};
}

std::string address_in(const sockaddr_storage &from)
{
    if (from.ss_family == AF_INET)
        return as_bytes(reinterpret_cast<const sockaddr_in &>(from).sin_addr);
    return as_bytes(reinterpret_cast<const sockaddr_in6 &>(from).sin6_addr);
}

// The kernel counts the memory of a socket's memberships among that of its options. Where it does
// not report that (before Linux 4.12), any socket may have memberships.
bool may_be_member(int fd)
{
    uint32_t memory[SK_MEMINFO_OPTMEM + 1] = {};
    socklen_t size = sizeof(memory);
    return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &size) != 0 || size != sizeof(memory) ||
           memory[SK_MEMINFO_OPTMEM] != 0;
}

uint64_t network_of(const Proc &holder)
{
    struct stat names = {};
    // A process id is none of the numbers that namespaces have.
    return stat(holder.path("ns/net").c_str(), &names) == 0 ? names.st_ino
                                                            : static_cast<uint64_t>(holder.pid());
}

} // namespace

sockaddr_storage as_group_address(std::string_view address)
{
    sockaddr_storage group = {};
    if (address.size() == sizeof(in_addr)) {
        auto &four = reinterpret_cast<sockaddr_in &>(group);
        four.sin_family = AF_INET;
        memcpy(&four.sin_addr, address.data(), sizeof(four.sin_addr));
    } else if (address.size() == sizeof(in6_addr)) {
        auto &six = reinterpret_cast<sockaddr_in6 &>(group);
        six.sin6_family = AF_INET6;
        memcpy(&six.sin6_addr, address.data(), sizeof(six.sin6_addr));
    }
    return group;
}

int level_of_group(std::string_view address)
{
    return address.size() == sizeof(in_addr) ? IPPROTO_IP : IPPROTO_IPV6;
}

Result<std::optional<SourceFilter>> read_source_filter(int fd, uint32_t interface,
                                                       std::string_view group)
{
    constexpr size_t fixed = offsetof(group_filter, gf_slist);
    for (uint32_t room = 0;;) {
        // One more, for the structure has one.
        std::vector<sockaddr_storage> answer(fixed / sizeof(sockaddr_storage) + 2 + room);
        auto *filter = reinterpret_cast<group_filter *>(answer.data());
        filter->gf_interface = interface;
        filter->gf_group = as_group_address(group);
        filter->gf_numsrc = room;
        auto size = static_cast<socklen_t>(answer.size() * sizeof(sockaddr_storage));
        if (getsockopt(fd, level_of_group(group), MCAST_MSFILTER, filter, &size) != 0) {
            // The first one says that it is no member; a raw socket of IPv6 has no options of IPv4.
            if (errno == EADDRNOTAVAIL || errno == ENODEV || errno == ENOPROTOOPT)
                return std::optional<SourceFilter>();
            return Error::from_errno("asking a socket about a group of multicasts", errno);
        }
        if (filter->gf_numsrc > room) {
            room = filter->gf_numsrc;
            continue;
        }
        SourceFilter found;
        found.only_sources = filter->gf_fmode == MCAST_INCLUDE;
        for (uint32_t i = 0; i < filter->gf_numsrc; i++) {
            sockaddr_storage source;
            memcpy(&source, reinterpret_cast<const char *>(filter) + fixed + i * sizeof(source),
                   sizeof(source));
            found.sources += address_in(source);
        }
        return std::optional(std::move(found));
    }
}

void GroupTables::Table::read(const Proc &holder)
{
    const auto open = [&](const char *name, std::string &problem) {
        Result<std::string> text = holder.read(name);
        if (!text)
            problem = fmt::format("of which the kernel does not tell the groups of multicasts: {}",
                                  text.error().text());
        return std::istringstream(text ? std::move(*text) : std::string());
    };
    // An interface's line begins with its index; the lines of its groups follow, and begin with
    // tabs and the address as a number of this machine.
    std::istringstream four = open("net/igmp", problem_of_4);
    Group last = {};
    for (std::string line; std::getline(four, line);) {
        if (!line.starts_with('\t')) {
            std::istringstream words(line);
            words >> last.interface >> last.name;
            last.name.resize(std::min(last.name.size(), last.name.find(':')));
            continue;
        }
        last.address = as_bytes(static_cast<uint32_t>(strtoul(line.c_str(), nullptr, 16)));
        of_4.push_back(last);
    }
    std::istringstream six = open("net/igmp6", problem_of_6);
    for (std::string line; std::getline(six, line);) {
        std::istringstream words(line);
        Group group = {};
        std::string digits;
        words >> group.interface >> group.name >> digits;
        for (size_t i = 0; i + 1 < digits.size(); i += 2)
            group.address += static_cast<char>(strtoul(digits.substr(i, 2).c_str(), nullptr, 16));
        of_6.push_back(std::move(group));
    }
}

// The kernel hands out a long list in pieces, and may omit a group between two of them when another
// socket leaves an earlier one. So the list is read until two answers agree.
GroupTables::Table::Table(const Proc &holder)
{
    constexpr int patience = 100;
    read(holder);
    for (int i = 0; i < patience; i++) {
        const Table last = std::exchange(*this, Table());
        read(holder);
        if (*this == last)
            return;
    }
    problem_of_4 = problem_of_6 = "of which the groups of multicasts cannot be found, because "
                                  "others are joined and left all the time";
}

void GroupTables::look_at(int fd, const Proc &holder, SocketLook &look)
{
    if ((look.domain != AF_INET && look.domain != AF_INET6) || !may_be_member(fd))
        return;
    const Table &table = tables_.try_emplace(network_of(holder), holder).first->second;
    std::string problem = table.problem_of_4;
    const auto ask = [&](const std::vector<Group> &groups) {
        for (const Group &group : groups) {
            auto filter = read_source_filter(fd, group.interface, group.address);
            if (!filter)
                problem = "of which the kernel does not tell the groups of multicasts: " +
                          filter.error().text();
            else if (*filter)
                look.memberships.push_back({group.name, group.address, std::move(**filter)});
        }
    };
    ask(table.of_4);
    // One of IPv6 may be in groups of both.
    if (look.domain == AF_INET6) {
        if (problem.empty())
            problem = table.problem_of_6;
        ask(table.of_6);
    }
    // A stream socket receives no multicasts.
    if (look.problem.empty() && look.kind != SOCK_STREAM)
        look.problem = problem;
}

bool is_multicast_router_here()
{
    std::ifstream interfaces("/proc/self/net/ip6_mr_vif");
    std::string line;
    return std::getline(interfaces, line) && std::getline(interfaces, line);
}

bool is_multicast_router_of_4_here()
{
    std::ifstream routers("/proc/sys/net/ipv4/conf/all/mc_forwarding");
    int count = 0;
    return !(routers >> count) || count != 0;
}

} // namespace cryo::capture
