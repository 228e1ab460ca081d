// SPDX-License-Identifier: Apache-2.0
// Connections that nobody has accepted yet. Only the process that accepts one can read what was
// written into it, and accepting cannot be undone. But one into which nothing was written yet can
// be made again, if its other end is in the checkpoint, too, or in no process.
#include "resources/socket/sockets.hpp"

#include "look/internet_address.hpp"
#include "look/tcp_look.hpp"
#include "look/unaccepted.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace cryo::resources {

using capture::InternetAddress;
using capture::SocketLook;
using capture::Unaccepted;
using capture::UnacceptedQueue;

namespace {

constexpr const char *untold = "the kernel does not tell which they are";

bool is_tcp(const SocketLook &look)
{
    return (look.domain == AF_INET || look.domain == AF_INET6) && look.kind == SOCK_STREAM &&
           look.protocol == IPPROTO_TCP;
}

// Bytes that were sent, and that the kernel still holds for the other end. −1: unknown.
int sent_by(int fd)
{
    int bytes = -1;
    return ioctl(fd, SIOCOUTQ, &bytes) == 0 ? bytes : -1;
}

std::string as_bytes(const InternetAddress &address, int family)
{
    sockaddr_storage storage;
    const socklen_t size = address.as(family, storage);
    return {reinterpret_cast<const char *>(&storage), size};
}

// The directions that the caller itself has shut down, if nothing was sent either way.
Result<uint32_t> shutdown_of_caller(int fd)
{
    const Result<std::string> waits = capture::peek_tcp(fd);
    if (!waits)
        return waits.error();
    if (!waits->empty() || sent_by(fd) != 0)
        return Error(ENOTSUP, "something is on its way in one of them");
    return capture::tcp_shutdown(fd);
}

} // namespace

Result<void> Sockets::find_unix_callers(uint64_t listener, SeenSocket &socket) const
{
    std::vector<uint64_t> callers = capture::waiting_callers(listener);
    if (callers.size() != socket.look.waiting)
        return Error(ENOTSUP, untold);
    for (const uint64_t caller : callers) {
        const auto found = looked_at_.find(caller);
        if (caller == 0)
            return Error(ENOTSUP, "the caller of one of them has closed its end");
        if (found == looked_at_.end())
            return Error(ENOTSUP, "one of them comes from outside");
        if (sent_by(seen_of(found->second).shared.get()) != 0)
            return Error(ENOTSUP, "something was written into one of them, which only the process "
                                  "that accepts it can read");
    }
    socket.callers = std::move(callers);
    return {};
}

Result<void> Sockets::find_tcp_callers(SeenSocket &socket)
{
    const SocketLook &listener = socket.look;
    const InternetAddress at(listener.local);
    const auto of_its_port = [&](const auto &entry) {
        const SocketLook &look = entry.second.look;
        return look.listening && is_tcp(look) && InternetAddress(look.local).port() == at.port();
    };
    if (std::ranges::count_if(looked_at_, of_its_port) > 1)
        return Error(ENOTSUP, "the kernel does not tell at which socket of the port they wait");
    const Result<UnacceptedQueue> queue = capture::unaccepted_at(listener);
    if (!queue)
        return queue.error();
    if (queue->all.size() != listener.waiting)
        return Error(ENOTSUP, untold);
    std::vector<uint64_t> callers;
    std::vector<uint32_t> shut_down;
    std::string closed;
    for (const Unaccepted &one : queue->all) {
        if (one.unread != 0)
            return Error(ENOTSUP, fmt::format("{} bytes were written into one of them, which only "
                                              "the process that accepts it can read",
                                              one.unread));
        const auto caller = std::ranges::find_if(looked_at_, [&](const auto &entry) {
            const SocketLook &look = entry.second.look;
            return is_tcp(look) && look.connected && !entry.second.in_pair &&
                   InternetAddress(look.local).same(one.peer) &&
                   InternetAddress(look.peer).same(one.local);
        });
        if (caller == looked_at_.end()) {
            const Result<bool> left = capture::is_left_here(one, listener.domain);
            if (!left)
                return left.error();
            if (!*left)
                return Error(ENOTSUP, "one of them comes from outside");
            callers.push_back(0);
            shut_down.push_back(0);
            closed += as_bytes(one.local, listener.domain) + as_bytes(one.peer, listener.domain);
            continue;
        }
        const Result<uint32_t> shutdown = shutdown_of_caller(seen_of(caller->second).shared.get());
        if (!shutdown)
            return shutdown.error();
        callers.push_back(caller->first);
        shut_down.push_back(*shutdown);
    }
    if (!queue->ordered)
        return Error(ENOTSUP, "they came so soon one after the other that the kernel does not tell "
                              "their order");
    for (size_t i = 0; i < callers.size(); i++) {
        if (callers[i] != 0)
            looked_at_.at(callers[i]).look.shutdown = shut_down[i];
    }
    socket.callers = std::move(callers);
    socket.closed_callers = std::move(closed);
    return {};
}

void Sockets::look_at_waiting()
{
    for (auto &[inode, socket] : looked_at_) {
        const SocketLook &look = socket.look;
        if (!look.listening || look.waiting == 0)
            continue;
        const Result<void> found = look.domain == AF_UNIX ? find_unix_callers(inode, socket)
                                   : is_tcp(look)         ? find_tcp_callers(socket)
                                                          : Result<void>(Error(ENOTSUP, untold));
        if (!found)
            socket.why_no_callers = found.error().text(); // save_sockets() refuses it
        for (const uint64_t caller : socket.callers) {
            if (caller != 0)
                looked_at_.at(caller).waits = true;
        }
    }
}

void Sockets::save_waiting()
{
    for (const auto &[inode, socket] : looked_at_) {
        if (socket.callers.empty())
            continue;
        std::vector<uint32_t> open_files;
        for (const uint64_t caller : socket.callers)
            open_files.push_back(caller != 0 ? seen_of(looked_at_.at(caller)).open_file : 0);
        image::Waiting record;
        record.listener = seen_of(socket).open_file;
        record.callers = saving_.keep_list(open_files);
        record.closed = image::as_bytes(saving_.keep(socket.closed_callers));
        saving_.records().add(record);
    }
}

} // namespace cryo::resources
