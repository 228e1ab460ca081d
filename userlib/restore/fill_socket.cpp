// SPDX-License-Identifier: Apache-2.0
// Data queued in sockets is sent again by their peers: bytes, packets, and descriptors in
// flight (SCM_RIGHTS). This comes last, because any open file may be among the descriptors.
#include "base/passing.hpp"
#include "resources/descriptor_text.hpp"
#include "resources/socket/filling.hpp"
#include "resources/socket/open_more.hpp"
#include "restore/open_parts.hpp"
#include "restore/sockets_apart.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/socket.h>

namespace cryo::restore {

namespace {

// One message, or as much of it as a stream takes at once.
ssize_t send_one(int from, std::string_view bytes, const std::vector<int> &descriptors)
{
    return send_with(from, bytes, descriptors, MSG_DONTWAIT);
}

Error failure(ssize_t sent)
{
    return Error::from_errno("filling a socket with what was in it", sent < 0 ? errno : EIO);
}

Result<void> send_stream(int from, std::string_view bytes, const std::vector<int> &descriptors)
{
    // The descriptors come with the first byte.
    for (bool first = true; !bytes.empty(); first = false) {
        const ssize_t n = send_one(from, bytes, first ? descriptors : std::vector<int>());
        if (n <= 0)
            return failure(n);
        bytes.remove_prefix(static_cast<size_t>(n));
    }
    return {};
}

Result<std::vector<int>> descriptors_of(const Planning &p, const image::Passed &passed)
{
    std::vector<int> descriptors;
    for (size_t i = 0; i < passed.open_files.size(); i++) {
        const uint32_t id = passed.open_files[i];
        const auto open = p.open_fds.find(id);
        if (open == p.open_fds.end() || descriptors.size() == most_passed)
            return Error(EINVAL, "a message in a socket carries something that is no open file");
        // Behind the number of a member's pidfd there is only a placeholder until it is made.
        const auto pidfd = p.saved.of<image::Pidfd>().find(id);
        if (pidfd != p.saved.of<image::Pidfd>().end() && pidfd->second.pid != 0)
            return Error(EINVAL, fmt::format("a message in a socket carries a pidfd of process {}",
                                             pidfd->second.pid));
        if (is_about_member(p, id))
            return Error(EINVAL, "a message in a socket carries a file of /proc about a member");
        descriptors.push_back(open->second);
    }
    return descriptors;
}

// The descriptors that were passed over the socket, in the order of the messages.
std::vector<const image::Passed *> passed_in(const Planning &p, uint32_t socket)
{
    std::vector<const image::Passed *> all;
    for (const image::Passed &passed : p.saved.of<image::Passed>()) {
        if (passed.socket == socket)
            all.push_back(&passed);
    }
    std::ranges::stable_sort(all, [](const image::Passed *a, const image::Passed *b) {
        return a->packet != b->packet ? a->packet < b->packet : a->position < b->position;
    });
    return all;
}

Result<void> fill_stream(Planning &p, const image::Socket &to, std::string_view bytes, int from)
{
    size_t at = 0;
    for (const image::Passed *passed : passed_in(p, to.open_file)) {
        if (passed->position < at || passed->position > bytes.size() || passed->size == 0 ||
            passed->size > bytes.size() - passed->position)
            return Error(EINVAL, "a message with descriptors is not where bytes wait");
        Result<std::vector<int>> descriptors = descriptors_of(p, *passed);
        if (!descriptors)
            return descriptors.error();
        Result<void> sent = send_stream(from, bytes.substr(at, passed->position - at), {});
        if (sent)
            sent = send_stream(from, bytes.substr(passed->position, passed->size), *descriptors);
        if (!sent)
            return sent;
        at = passed->position + passed->size;
    }
    return send_stream(from, bytes.substr(at), {});
}

// Packets that others than the peer have sent.
Result<void> send_again(Planning &p, const image::Socket &to, const image::Senders &senders,
                        std::string_view bytes, const std::vector<std::vector<int>> &descriptors)
{
    const std::unique_ptr<resources::Opening> opening = opening_of(p);
    if (to.domain == AF_INET || to.domain == AF_INET6)
        return resources::send_udp(*opening, to, senders, bytes);
    const InDirectory inside{std::string(p.saved.process.cwd)};
    return resources::send_datagrams(*opening, name_now(p, to), to, senders, bytes, descriptors);
}

Result<void> fill_packets(Planning &p, const image::Socket &to, std::string_view bytes, int from)
{
    std::vector<std::vector<int>> descriptors(to.packets.size());
    for (const image::Passed *passed : passed_in(p, to.open_file)) {
        if (passed->packet >= descriptors.size())
            return Error(EINVAL, "descriptors belong to no packet that waits");
        Result<std::vector<int>> some = descriptors_of(p, *passed);
        if (!some)
            return some.error();
        descriptors[passed->packet] = std::move(*some);
    }
    const auto senders = p.saved.of<image::Senders>().find(to.open_file);
    if (senders != p.saved.of<image::Senders>().end())
        return send_again(p, to, senders->second, bytes, descriptors);
    for (size_t i = 0; i < to.packets.size(); i++) {
        const size_t part = std::min<size_t>(to.packets[i], bytes.size());
        const ssize_t n = send_one(from, bytes.substr(0, part), descriptors[i]);
        if (n != static_cast<ssize_t>(part))
            return failure(n);
        bytes.remove_prefix(part);
    }
    return {};
}

Result<void> fill(Planning &p, const image::Socket &to, int from)
{
    Result<std::string> bytes = small_contents(p, to.object, to.size);
    if (!bytes)
        return bytes.error();
    return to.kind == SOCK_STREAM ? fill_stream(p, to, *bytes, from)
                                  : fill_packets(p, to, *bytes, from);
}

// Closing the other end, when all are filled, resets the connection by that.
Result<void> leave_unread(int fd)
{
    const ssize_t n = send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n == 1 ? Result<void>() : failure(n);
}

// An unconnected UDP socket is shut down, too, although the kernel reports ENOTCONN.
Result<void> shut_down(int fd, const image::Socket &socket)
{
    const bool internet = socket.domain != AF_UNIX;
    if (socket.shutdown != 0 && shutdown(fd, static_cast<int>(socket.shutdown) - 1) != 0 &&
        !(internet && errno == ENOTCONN))
        return Error::from_errno("shutting a socket down", errno);
    return {};
}

} // namespace

Result<void> fill_sockets(Planning &p)
{
    for (const Unfilled &one : p.unfilled) {
        const int from = one.peer == 0 ? one.lone.get() : p.open_fds.at(one.peer);
        if (Result<void> done = fill(p, p.saved.sockets().at(one.socket), from); !done)
            return done.error().within(resources::descriptor_text(descriptor_of(p, one.socket)));
    }
    for (const Unfilled &one : p.unfilled) {
        const image::Socket &socket = p.saved.sockets().at(one.socket);
        if (socket.state == image::SocketState::connected_datagram) {
            if (Result<void> done = connect_datagram(p, p.open_fds.at(one.socket), socket); !done)
                return done;
        }
        if (socket.reset) {
            if (Result<void> done = leave_unread(p.open_fds.at(one.socket)); !done)
                return done;
        }
        if (Result<void> done = shut_down(p.open_fds.at(one.socket), socket); !done)
            return done;
    }
    // Unconnected sockets, too: until now they may have been needed to send.
    for (const auto &[id, socket] : p.saved.sockets()) {
        const bool lone =
            socket.kind == SOCK_DGRAM && (socket.state == image::SocketState::bound ||
                                          socket.state == image::SocketState::fresh ||
                                          socket.state == image::SocketState::connected_datagram);
        if (!lone || !is_opened(p, id) || p.redirected.count(id) != 0)
            continue;
        if (Result<void> done = shut_down(p.open_fds.at(id), socket); !done)
            return done;
    }
    if (Result<void> done = finish_connections(p); !done)
        return done;
    if (Result<void> done = resources::filter_filled(*opening_of(p)); !done)
        return done;
    if (Result<void> done = resources::join_multicasts(*opening_of(p)); !done)
        return done;
    p.unfilled.clear(); // closes the ends that no process has
    p.sockets_apart.reset();
    return {};
}

} // namespace cryo::restore
