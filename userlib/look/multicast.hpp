// SPDX-License-Identifier: Apache-2.0
//
// The multicast groups that a socket has joined.
//
//     GroupTables tables; // while nothing joins or leaves
//     tables.look_at(fd, Proc(412), look); // look.memberships, or look.problem
#pragma once

#include "look/proc.hpp"
#include "look/socket_look.hpp"

#include <map>
#include <optional>
#include <sys/socket.h>

namespace cryo::capture {

// The kernel does not list a socket's groups, but answers about each one, and lists those that
// interfaces listen to. A group that was joined on an interface that is gone is in no list, and
// receives nothing.
class GroupTables
{
  public:
    // `holder`: a process in whose network namespace the socket is.
    void look_at(int fd, const Proc &holder, SocketLook &look);

  private:
    struct Group {
        uint32_t interface;
        std::string name;
        std::string address;
        bool operator==(const Group &) const = default;
    };
    struct Table {
        Table() = default;
        explicit Table(const Proc &holder);
        bool operator==(const Table &) const = default;
        void read(const Proc &holder);
        std::string problem_of_4, problem_of_6; // why they are not known; empty: they are
        std::vector<Group> of_4, of_6;
    };
    std::map<uint64_t, Table> tables_; // by network namespace
};

// The sources from which the socket receives in a group that it has joined on this interface;
// nothing: it has not joined.
Result<std::optional<SourceFilter>> read_source_filter(int fd, uint32_t interface,
                                                       std::string_view group);

// The address, of 4 bytes or 16, as the options of sockets take it, and the level of these options.
sockaddr_storage as_group_address(std::string_view address);
int level_of_group(std::string_view address);

// Whether anything routes multicasts of IPv6 here, which takes a raw socket of ICMP.
bool is_multicast_router_here();
// Likewise of IPv4, which takes one of IGMP; or the kernel does not tell.
bool is_multicast_router_of_4_here();

} // namespace cryo::capture
