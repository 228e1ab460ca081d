// SPDX-License-Identifier: Apache-2.0
#include "look/diagnostics.hpp"

#include "base/fd.hpp"

#include <cerrno>
#include <sys/socket.h>
#include <vector>

namespace cryo::capture {

namespace {

constexpr const char *asking_for_sockets = "asking the kernel for its sockets (sock_diag)";

Error unreadable()
{
    return Error::from_errno(asking_for_sockets, EPROTO);
}

// Whether a filter of system calls, as containers have, or a security module keeps such sockets
// from this process for good: the kernel itself lets everybody have one. With one, the same errors
// may be about this question only.
bool is_forbidden(int why)
{
    return why == EPERM || why == EACCES;
}

// The end of the replies, or an error: both begin with a negative errno, or 0.
Result<bool> end_of_replies(Attributes body, bool gaps)
{
    if (body.size() < sizeof(int))
        return unreadable();
    const auto code = attribute_value<int>(body);
    if (code < 0)
        return Error::from_errno(asking_for_sockets, -code);
    if (gaps)
        return Error::from_errno(asking_for_sockets, EINTR);
    return false;
}

} // namespace

Result<bool> find_in_replies(Attributes question, size_t fixed, Asking asking,
                             const std::function<bool(Attributes)> &visit)
{
    const Fd netlink(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (!netlink) {
        const int why = errno;
        return Error(is_forbidden(why) ? EAFNOSUPPORT : why,
                     Error::from_errno(asking_for_sockets, why).text());
    }
    const ssize_t sent = send(netlink.get(), question.data(), question.size(), 0);
    if (sent < 0)
        return Error::from_errno(asking_for_sockets, errno);
    if (static_cast<size_t>(sent) != question.size())
        return unreadable();
    std::vector<char> answer(65536);
    // Sockets that came or went during a dump, or a reply that was cut, do not make the reply about
    // the others wrong, but a missing socket no longer proves that it does not exist.
    bool gaps = false;
    for (;;) {
        const ssize_t got = recv(netlink.get(), answer.data(), answer.size(), MSG_TRUNC);
        if (got < 0)
            return Error::from_errno(asking_for_sockets, errno);
        if (got == 0)
            return unreadable();
        gaps |= static_cast<size_t>(got) > answer.size();
        Attributes rest(answer.data(), std::min(static_cast<size_t>(got), answer.size()));
        while (!rest.empty()) {
            const auto head = attribute_value<nlmsghdr>(rest);
            if (rest.size() < sizeof(head) || head.nlmsg_len < sizeof(head) ||
                head.nlmsg_len > rest.size())
                return unreadable();
            gaps |= (head.nlmsg_flags & NLM_F_DUMP_INTR) != 0;
            const Attributes body = rest.subspan(sizeof(head), head.nlmsg_len - sizeof(head));
            if (head.nlmsg_type == NLMSG_DONE || head.nlmsg_type == NLMSG_ERROR)
                return end_of_replies(body, gaps);
            if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY || body.size() < fixed)
                return unreadable();
            if (visit(body))
                return true;
            if (asking == Asking::one)
                return false; // nothing comes behind it
            rest = rest.subspan(std::min<size_t>(NLMSG_ALIGN(head.nlmsg_len), rest.size()));
        }
    }
}

} // namespace cryo::capture
