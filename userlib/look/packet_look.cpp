// SPDX-License-Identifier: Apache-2.0
#include "look/packet_look.hpp"

#include "look/diagnostics.hpp"

#include <algorithm>
#include <cstring>
#include <linux/if_packet.h>
#include <linux/packet_diag.h>
#include <net/if.h>
#include <sys/socket.h>

namespace cryo::capture {

namespace {

struct Shared {
    bool found = false;  // the kernel tells of this socket
    bool joined = false; // PACKET_ADD_MEMBERSHIP
    bool fanout = false;
};

// Asks for all packet sockets, and picks ours.
Shared ask_diagnostics(uint64_t inode)
{
    packet_diag_req request = {};
    request.sdiag_family = AF_PACKET;
    request.pdiag_show = PACKET_SHOW_MCLIST | PACKET_SHOW_FANOUT;
    Shared shared;
    const auto take = [&shared](unsigned type, Attributes data) {
        // A list is there even if it is empty.
        shared.joined |= type == PACKET_DIAG_MCLIST && !data.empty();
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

// Whether it has a ring of packets: then its version may not be set, not even to what it is.
bool has_ring(int fd)
{
    int version = 0;
    socklen_t size = sizeof(version);
    return getsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, &size) != 0 ||
           setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, size) != 0;
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
    else if (shared.joined)
        look.problem = "that has joined something (PACKET_ADD_MEMBERSHIP)";
    else if (shared.fanout)
        look.problem = "that shares its packets with others (PACKET_FANOUT)";
}

} // namespace cryo::capture
