// SPDX-License-Identifier: Apache-2.0
#include "base/passing.hpp"

#include <cerrno>
#include <cstring>
#include <sys/socket.h>

namespace cryo {

namespace {

template <class Receive>
ssize_t until_nothing_is_left(const Receive &receive)
{
    bool ended = false;
    for (;;) {
        const ssize_t n = receive();
        if (n < 0 && errno == EINTR)
            continue;
        if (n > 0 || (n < 0 && errno != ECONNRESET) || ended)
            return n;
        ended = true;
    }
}

} // namespace

ssize_t send_with(int to, std::span<const char> bytes, std::span<const int> fds, int flags,
                  std::span<const char> address)
{
    if (fds.size() > most_passed) {
        errno = EINVAL;
        return -1;
    }
    iovec part = {const_cast<char *>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(most_passed * sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!address.empty()) {
        message.msg_name = const_cast<char *>(address.data());
        message.msg_namelen = static_cast<socklen_t>(address.size());
    }
    if (!fds.empty()) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(fds.size_bytes());
        memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
    }
    ssize_t n;
    do {
        n = sendmsg(to, &message, flags | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n;
}

ssize_t receive_with(int from, std::span<char> room, std::vector<Fd> &fds, int flags)
{
    iovec part = {room.data(), room.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(most_passed * sizeof(int))];
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    const ssize_t n = until_nothing_is_left([&] {
        message.msg_controllen = sizeof(control);
        return recvmsg(from, &message, flags | MSG_CMSG_CLOEXEC);
    });
    if (n < 0)
        return n;
    for (cmsghdr *head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof(fd), sizeof(fd));
            fds.emplace_back(fd);
        }
    }
    return n;
}

ssize_t receive_packet(int from, std::span<char> room, int flags)
{
    return until_nothing_is_left([&] { return recv(from, room.data(), room.size(), flags); });
}

} // namespace cryo
