// SPDX-License-Identifier: Apache-2.0
//
// The kernel's diagnostics of sockets (sock_diag): a request, and the sockets in the reply.
//
//     packet_diag_req request = {};
//     request.sdiag_family = AF_PACKET;
//     Result<bool> found = find_diagnosed<packet_diag_msg>(
//         request, [&](const packet_diag_msg &socket, Attributes attributes) {
//             if (socket.pdiag_ino != inode)
//                 return false;
//             for_each_attribute(attributes.data(), attributes.size(),
//                                [&](unsigned type, Attributes data) { ... });
//             return true;
//         });
#pragma once

#include "base/result.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <span>
#include <type_traits>

namespace cryo::capture {

// The attributes of one socket, which follow its fixed part; or the data of one of them.
using Attributes = std::span<const char>;

// The scope of a request: all sockets that match, or the one that it names.
enum class Asking { all, one };

// The value of an attribute; what it is too short for is 0.
template <class T>
T attribute_value(Attributes data)
{
    static_assert(std::is_trivially_copyable_v<T>);
    T value = {};
    memcpy(&value, data.data(), std::min(data.size(), sizeof(value)));
    return value;
}

// Calls `visit` with the type and the data of each attribute. Attributes: u16 length including
// these four bytes, u16 type, data; each is aligned to 4. False: the rest cannot be read.
template <class Visit>
bool for_each_attribute(const char *first, size_t length, const Visit &visit)
{
    Attributes rest(first, length);
    while (rest.size() >= sizeof(rtattr)) {
        const auto head = attribute_value<rtattr>(rest);
        if (head.rta_len < sizeof(head) || head.rta_len > rest.size())
            return false;
        visit(static_cast<unsigned>(head.rta_type),
              rest.subspan(sizeof(head), head.rta_len - sizeof(head)));
        rest = rest.subspan(std::min<size_t>(RTA_ALIGN(head.rta_len), rest.size()));
    }
    return true;
}

// Sends a whole message, and calls `visit` with what follows the head of each reply, at least
// `fixed` bytes, until it returns true.
Result<bool> find_in_replies(Attributes question, size_t fixed, Asking asking,
                             const std::function<bool(Attributes)> &visit);

// Calls `visit` with the fixed part and the attributes of each socket until it returns true. False:
// it never did. An error: the kernel refused, or its answer has gaps in which the socket may be.
// EAFNOSUPPORT: this process may not ask at all, whatever the reason is called.
template <class Fixed, class Request, class Visit>
Result<bool> find_diagnosed(const Request &request, const Visit &visit, Asking asking = Asking::all)
{
    static_assert(std::is_trivially_copyable_v<Request>);
    static_assert(sizeof(Fixed) % NLMSG_ALIGNTO == 0);
    struct {
        nlmsghdr head;
        Request request;
    } question = {};
    question.head.nlmsg_len = sizeof(question);
    question.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    question.head.nlmsg_flags = NLM_F_REQUEST;
    if (asking == Asking::all)
        question.head.nlmsg_flags |= NLM_F_DUMP;
    question.request = request;
    return find_in_replies(Attributes(reinterpret_cast<const char *>(&question), sizeof(question)),
                           sizeof(Fixed), asking, [&visit](Attributes reply) {
                               return visit(attribute_value<Fixed>(reply),
                                            reply.subspan(sizeof(Fixed)));
                           });
}

} // namespace cryo::capture
