// SPDX-License-Identifier: Apache-2.0
#include "capture/udp_look.hpp"

#include "base/fd.hpp"

#include <algorithm>
#include <cstring>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <vector>

namespace cryo::capture {

namespace {

constexpr uint32_t reading = 1, writing = 2;

// Parses the attributes of one socket, which follow its fixed part.
uint32_t shutdown_of(const char *from, size_t size)
{
    while (size >= sizeof(rtattr)) {
        rtattr attribute;
        memcpy(&attribute, from, sizeof(attribute));
        if (attribute.rta_len < sizeof(attribute) || attribute.rta_len > size)
            break;
        if (attribute.rta_type == INET_DIAG_SHUTDOWN && attribute.rta_len > sizeof(attribute))
            return static_cast<uint8_t>(from[sizeof(attribute)]);
        const size_t whole = std::min<size_t>((attribute.rta_len + 3U) & ~3U, size);
        from += whole;
        size -= whole;
    }
    return 0;
}

// Asks the kernel's diagnostics for all sockets of this protocol and port, and picks ours.
uint32_t ask_diagnostics(int family, int protocol, uint16_t port, uint64_t inode)
{
    const Fd netlink(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    struct {
        nlmsghdr head;
        inet_diag_req_v2 request;
    } question = {};
    question.head.nlmsg_len = sizeof(question);
    question.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    question.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    question.request.sdiag_family = static_cast<uint8_t>(family);
    question.request.sdiag_protocol = static_cast<uint8_t>(protocol);
    question.request.idiag_ext = 1 << (INET_DIAG_SHUTDOWN - 1);
    question.request.idiag_states = ~0U;
    question.request.id.idiag_sport = port;
    if (!netlink || send(netlink.get(), &question, sizeof(question), 0) != sizeof(question))
        return 0;
    std::vector<char> answer(65536);
    for (;;) {
        const ssize_t got = recv(netlink.get(), answer.data(), answer.size(), 0);
        if (got <= 0)
            return 0;
        for (size_t at = 0; at + sizeof(nlmsghdr) <= static_cast<size_t>(got);) {
            nlmsghdr head;
            memcpy(&head, answer.data() + at, sizeof(head));
            constexpr size_t fixed = sizeof(nlmsghdr) + sizeof(inet_diag_msg);
            if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY || head.nlmsg_len < fixed ||
                at + head.nlmsg_len > static_cast<size_t>(got))
                return 0; // the end, or an error
            inet_diag_msg found;
            memcpy(&found, answer.data() + at + sizeof(head), sizeof(found));
            if (found.idiag_inode == static_cast<uint32_t>(inode))
                return shutdown_of(answer.data() + at + fixed, head.nlmsg_len - fixed);
            at += (head.nlmsg_len + 3U) & ~3U;
        }
    }
}

} // namespace

uint32_t udp_shutdown(int fd, const std::string &local, uint64_t inode)
{
    pollfd end = {fd, POLLRDHUP, 0};
    const bool told = poll(&end, 1, 0) == 1;
    if (told && (end.revents & POLLHUP) != 0)
        return reading | writing;
    uint32_t found = told && (end.revents & POLLRDHUP) != 0 ? reading : 0;
    sockaddr_storage name = {};
    memcpy(&name, local.data(), std::min(local.size(), sizeof(name)));
    // The port is at the same offset in both families.
    const uint16_t port = reinterpret_cast<const sockaddr_in &>(name).sin_port;
    int protocol = IPPROTO_UDP; // or UDP-Lite
    socklen_t size = sizeof(protocol);
    if (port != 0 && getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0)
        found |= ask_diagnostics(name.ss_family, protocol, port, inode) & (reading | writing);
    return found;
}

} // namespace cryo::capture
