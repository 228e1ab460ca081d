// SPDX-License-Identifier: Apache-2.0
#include "look/packet_look.hpp"

#include "look/diagnostics.hpp"

#include <algorithm>
#include <cstring>
#include <linux/if_packet.h>
#include <linux/packet_diag.h>
#include <net/if.h>
#include <sys/socket.h>
#include <vector>

namespace cryo::capture {

namespace {

struct Shared {
    bool found = false; // the kernel tells of this socket
    bool fanout = false;
    std::vector<packet_diag_mclist> joined; // PACKET_ADD_MEMBERSHIP
};

// Asks for all packet sockets, and picks ours.
Shared ask_diagnostics(uint64_t inode)
{
    packet_diag_req request = {};
    request.sdiag_family = AF_PACKET;
    request.pdiag_show = PACKET_SHOW_MCLIST | PACKET_SHOW_FANOUT;
    Shared shared;
    const auto take = [&shared](unsigned type, Attributes data) {
        constexpr size_t size = sizeof(packet_diag_mclist);
        for (; type == PACKET_DIAG_MCLIST && data.size() >= size; data = data.subspan(size))
            shared.joined.push_back(attribute_value<packet_diag_mclist>(data.first(size)));
        shared.fanout |= type == PACKET_DIAG_FANOUT;
    };
    const auto is_ours = [&](const packet_diag_msg &socket, Attributes attributes) {
        if (socket.pdiag_ino != static_cast<uint32_t>(inode))
            return false;
        shared.found = for_each_attribute(attributes.data(), attributes.size(), take);
        return true;
    };
    const Result<bool> found = find_diagnosed<packet_diag_msg>(request, is_ours);
    return found && *found ? shared : Shared();
}

// Whether programs choose who gets a packet, which the kernel tells nobody.
bool chooses_by_program(int fd)
{
    uint32_t group = 0;
    socklen_t size = sizeof(group);
    if (getsockopt(fd, SOL_PACKET, PACKET_FANOUT, &group, &size) != 0)
        return true;
    const uint32_t how = group >> 16 & UINT8_MAX;
    return how == PACKET_FANOUT_CBPF || how == PACKET_FANOUT_EBPF;
}

// Whether it has a ring of packets: then its version may not be set, not even to what it is.
bool has_ring(int fd)
{
    int version = 0;
    socklen_t size = sizeof(version);
    return getsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, &size) != 0 ||
           setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, size) != 0;
}

// What the socket has joined, once for each time. False: it cannot be joined again.
bool note_memberships(const Shared &shared, SocketLook &look)
{
    constexpr size_t most = 1000;
    for (const packet_diag_mclist &one : shared.joined) {
        char interface[IF_NAMESIZE] = "";
        if (one.pdmc_alen > sizeof(one.pdmc_addr) || one.pdmc_count > most ||
            !if_indextoname(one.pdmc_index, interface))
            return false;
        Membership member;
        member.interface = interface;
        member.group.assign(reinterpret_cast<const char *>(one.pdmc_addr), one.pdmc_alen);
        member.packets = one.pdmc_type + 1U;
        look.memberships.insert(look.memberships.end(), one.pdmc_count, member);
    }
    return look.memberships.size() <= most;
}

} // namespace

void look_at_packet(int fd, SocketLook &look, uint64_t inode)
{
    sockaddr_ll name = {};
    memcpy(&name, look.local.data(), std::min(look.local.size(), sizeof(name)));
    const int index = name.sll_ifindex;
    char interface[IF_NAMESIZE] = "";
    const bool named = index > 0 && if_indextoname(static_cast<unsigned>(index), interface);
    look.interface = interface;
    // What bind(2) takes; the interface is found by its name. No packet comes before that.
    const auto protocol = name.sll_protocol;
    name = {};
    name.sll_family = AF_PACKET;
    name.sll_protocol = protocol;
    look.local.assign(reinterpret_cast<const char *>(&name), sizeof(name));
    look.protocol = 0;
    look.bound = index != 0 || protocol != 0;
    look.local_is_unnamed = !look.bound;
    const Shared shared = ask_diagnostics(inode);
    if (index != 0 && !named)
        look.problem = "whose network device is gone";
    else if (has_ring(fd))
        look.problem = "with a ring of packets (PACKET_RX_RING, PACKET_TX_RING)";
    else if (!shared.found)
        look.problem = "of which this kernel tells too little (packet_diag)";
    else if (shared.fanout && chooses_by_program(fd))
        look.problem = "that shares its packets with others by a program (PACKET_FANOUT_CBPF or "
                       "PACKET_FANOUT_EBPF)";
    else if (!note_memberships(shared, look))
        look.problem = "that has joined too much (PACKET_ADD_MEMBERSHIP)";
}

} // namespace cryo::capture
