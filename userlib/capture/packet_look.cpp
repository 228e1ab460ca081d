// SPDX-License-Identifier: Apache-2.0
#include "capture/packet_look.hpp"

#include "base/fd.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/packet_diag.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <sys/socket.h>

namespace cryo::capture {

namespace {

struct Shared {
    bool found = false;  // the kernel tells of this socket
    bool joined = false; // PACKET_ADD_MEMBERSHIP
    bool fanout = false;
};

// Parses the attributes of one socket, which follow its fixed part.
Shared parse_attributes(const char *from, size_t size)
{
    Shared shared;
    shared.found = true;
    while (size >= sizeof(rtattr)) {
        rtattr attribute;
        memcpy(&attribute, from, sizeof(attribute));
        if (attribute.rta_len < sizeof(attribute) || attribute.rta_len > size)
            break;
        // A list is there even if it is empty.
        shared.joined |=
            attribute.rta_type == PACKET_DIAG_MCLIST && attribute.rta_len > sizeof(attribute);
        shared.fanout |= attribute.rta_type == PACKET_DIAG_FANOUT;
        const size_t whole = std::min<size_t>((attribute.rta_len + 3U) & ~3U, size);
        from += whole;
        size -= whole;
    }
    return shared;
}

// Asks for all packet sockets, and picks ours.
Shared ask_diagnostics(uint64_t inode)
{
    const Fd netlink(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    struct {
        nlmsghdr head;
        packet_diag_req request;
    } question = {};
    question.head.nlmsg_len = sizeof(question);
    question.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    question.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    question.request.sdiag_family = AF_PACKET;
    question.request.pdiag_show = PACKET_SHOW_MCLIST | PACKET_SHOW_FANOUT;
    if (!netlink || send(netlink.get(), &question, sizeof(question), 0) != sizeof(question))
        return {};
    std::vector<char> answer(65536);
    for (;;) {
        const ssize_t got = recv(netlink.get(), answer.data(), answer.size(), 0);
        if (got <= 0)
            return {};
        for (size_t at = 0; at + sizeof(nlmsghdr) <= static_cast<size_t>(got);) {
            nlmsghdr head;
            memcpy(&head, answer.data() + at, sizeof(head));
            constexpr size_t fixed = sizeof(nlmsghdr) + sizeof(packet_diag_msg);
            if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY || head.nlmsg_len < fixed ||
                at + head.nlmsg_len > static_cast<size_t>(got))
                return {}; // the end, or an error
            packet_diag_msg found;
            memcpy(&found, answer.data() + at + sizeof(head), sizeof(found));
            if (found.pdiag_ino == static_cast<uint32_t>(inode))
                return parse_attributes(answer.data() + at + fixed, head.nlmsg_len - fixed);
            at += (head.nlmsg_len + 3U) & ~3U;
        }
    }
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
