// SPDX-License-Identifier: Apache-2.0
#include "look/udp_look.hpp"

#include "look/diagnostics.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <linux/inet_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace cryo::capture {

namespace {

constexpr uint32_t reading = 1, writing = 2;

// Whether the kernel has no udp_diag, or none for this kind of socket, or no sock_diag at all; or a
// service manager (systemd's RestrictAddressFamilies) or a container keeps netlink away.
bool is_lack(const Error &error)
{
    return error.code() == ENOENT || error.code() == EPROTONOSUPPORT ||
           error.code() == EAFNOSUPPORT;
}

// Asks the kernel's diagnostics for all sockets of this protocol and port, and picks ours.
Result<uint32_t> ask_diagnostics(int family, int protocol, uint16_t port, uint64_t inode)
{
    inet_diag_req_v2 request = {};
    request.sdiag_family = static_cast<uint8_t>(family);
    request.sdiag_protocol = static_cast<uint8_t>(protocol);
    request.idiag_ext = 1 << (INET_DIAG_SHUTDOWN - 1);
    request.idiag_states = ~0U;
    request.id.idiag_sport = port;
    uint32_t directions = 0;
    bool is_whole = true;
    const auto is_ours = [&](const inet_diag_msg &socket, Attributes attributes) {
        if (socket.idiag_inode != static_cast<uint32_t>(inode))
            return false;
        is_whole = for_each_attribute(attributes.data(), attributes.size(),
                                      [&directions](unsigned type, Attributes data) {
                                          if (type == INET_DIAG_SHUTDOWN)
                                              directions = attribute_value<uint8_t>(data);
                                      });
        return true;
    };
    const Result<bool> found = find_diagnosed<inet_diag_msg>(request, is_ours);
    if (!found && is_lack(found.error()))
        return 0;
    if (!found)
        return found.error();
    if (!is_whole)
        return Error(EPROTO, "the kernel's answer cannot be read (udp_diag)");
    return directions;
}

} // namespace

Result<uint32_t> udp_shutdown(int fd, const std::string &local, uint64_t inode)
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
    if (port == 0)
        return found;
    if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0)
        return Error::from_errno("SO_PROTOCOL", errno);
    Result<uint32_t> asked = ask_diagnostics(name.ss_family, protocol, port, inode);
    if (!asked)
        return asked;
    return found | (*asked & (reading | writing));
}

bool may_tell_later(const Error &error)
{
    constexpr int passing[] = {EAGAIN, EBUSY, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM};
    return std::ranges::find(passing, error.code()) != std::end(passing);
}

std::string untold_shutdown(const Error &error)
{
    return "of which the kernel does not tell whether it was shut down: " + error.text();
}

} // namespace cryo::capture
