// SPDX-License-Identifier: Apache-2.0
#include "look/unaccepted.hpp"

#include "look/diagnostics.hpp"
#include "look/peer_link.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <linux/inet_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <string_view>
#include <sys/socket.h>

namespace cryo::capture {

namespace {

using Clock = std::chrono::steady_clock;

InternetAddress address_of(int family, const uint32_t (&host)[4], uint16_t port)
{
    sockaddr_storage storage = {};
    if (family == AF_INET6) {
        auto &six = reinterpret_cast<sockaddr_in6 &>(storage);
        six.sin6_family = AF_INET6;
        six.sin6_port = port;
        memcpy(&six.sin6_addr, host, sizeof(six.sin6_addr));
    } else {
        auto &four = reinterpret_cast<sockaddr_in &>(storage);
        four.sin_family = AF_INET;
        four.sin_port = port;
        memcpy(&four.sin_addr, host, sizeof(four.sin_addr));
    }
    return InternetAddress(
        std::string_view(reinterpret_cast<const char *>(&storage), sizeof(storage)));
}

// The oldest comes first. The kernel counts ages in ticks of up to 10 ms, and reads the clock anew
// for each socket of its answer.
bool put_in_order(std::vector<Unaccepted> &all, std::chrono::milliseconds answered_in)
{
    constexpr auto ticks = std::chrono::milliseconds(20);
    const auto apart = static_cast<uint64_t>((ticks + answered_in).count());
    std::ranges::sort(all, std::ranges::greater(), &Unaccepted::age_ms);
    return std::ranges::adjacent_find(all, [apart](const Unaccepted &one, const Unaccepted &next) {
               return one.age_ms - next.age_ms <= apart;
           }) == all.end();
}

} // namespace

Result<UnacceptedQueue> unaccepted_at(const SocketLook &listener)
{
    const InternetAddress at(listener.local);
    inet_diag_req_v2 request = {};
    request.sdiag_family = static_cast<uint8_t>(listener.domain);
    request.sdiag_protocol = IPPROTO_TCP;
    request.idiag_ext = 1 << (INET_DIAG_INFO - 1);
    request.idiag_states = 1U << TCP_ESTABLISHED | 1U << TCP_CLOSE_WAIT;
    request.id.idiag_sport = htons(at.port());
    UnacceptedQueue queue;
    const auto visit = [&](const inet_diag_msg &socket, Attributes attributes) {
        const InternetAddress local =
            address_of(socket.idiag_family, socket.id.idiag_src, socket.id.idiag_sport);
        if (socket.idiag_inode != 0 || !at.takes(local, true))
            return false; // a process has it, or will have it by another socket
        Unaccepted one = {
            .local = local,
            .peer = address_of(socket.idiag_family, socket.id.idiag_dst, socket.id.idiag_dport),
            .ended = socket.idiag_state == TCP_CLOSE_WAIT,
            .unread = socket.idiag_rqueue,
            .age_ms = 0};
        if (one.ended && one.unread > 0)
            one.unread--; // the end of what its caller sends counts as a byte
        for_each_attribute(attributes.data(), attributes.size(),
                           [&one](unsigned type, Attributes data) {
                               if (type == INET_DIAG_INFO)
                                   one.age_ms = attribute_value<tcp_info>(data).tcpi_last_data_recv;
                           });
        queue.all.push_back(one);
        return false;
    };
    const Clock::time_point begun = Clock::now();
    const Result<bool> answered = find_diagnosed<inet_diag_msg>(request, visit);
    if (!answered)
        return answered.error();
    queue.ordered = put_in_order(
        queue.all, std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun));
    return queue;
}

Result<bool> is_left_here(const Unaccepted &one, int family)
{
    const auto bytes_of = [family](const InternetAddress &address) {
        sockaddr_storage storage;
        const socklen_t size = address.as(family, storage);
        return std::string(reinterpret_cast<const char *>(&storage), size);
    };
    if (!one.ended || !one.local.is_loopback() || !one.peer.is_loopback())
        return false;
    SocketLook end;
    end.domain = family;
    end.kind = SOCK_STREAM;
    end.local = bytes_of(one.local);
    end.peer = bytes_of(one.peer);
    const Result<std::string> caller = link_of_peer(end);
    return caller ? Result<bool>(caller->empty()) : caller.error();
}

} // namespace cryo::capture
