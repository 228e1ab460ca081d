// SPDX-License-Identifier: Apache-2.0
#include "resources/socket/repair_mode.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

namespace cryo::resources {

namespace {

// Newer than libc's header.
constexpr int repair_off_silently = -1; // TCP_REPAIR_OFF_NO_WP: sends no window probe
constexpr int window_option = 29;       // TCP_REPAIR_WINDOW

constexpr uint32_t least_segment = 88; // TCP_MIN_MSS: a smaller one can divide by zero
constexpr uint32_t widest_scale = 14;  // TCP_MAX_WSCALE
constexpr uint32_t most_room = 1 << 30;

} // namespace

bool set_tcp(int fd, int name, int value)
{
    return setsockopt(fd, IPPROTO_TCP, name, &value, sizeof(value)) == 0;
}

bool set_seq(int fd, RepairQueue queue, uint32_t seq)
{
    return set_tcp(fd, TCP_REPAIR_QUEUE, queue) &&
           setsockopt(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, &seq, sizeof(seq)) == 0;
}

bool seq_of(int fd, RepairQueue queue, uint32_t &seq)
{
    return set_tcp(fd, TCP_REPAIR_QUEUE, queue) && get_option(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, seq);
}

bool set_window(int fd, const RepairWindow &window)
{
    return setsockopt(fd, IPPROTO_TCP, window_option, &window, sizeof(window)) == 0;
}

bool window_of(int fd, RepairWindow &window)
{
    return get_option(fd, IPPROTO_TCP, window_option, window);
}

Error repair_failed(std::string_view what)
{
    return Error::from_errno(fmt::format("{} (TCP_REPAIR)", what), errno);
}

int state_of(int fd)
{
    tcp_info now = {};
    return get_option(fd, IPPROTO_TCP, TCP_INFO, now) ? now.tcpi_state : -1;
}

bool has_peers_end(int state)
{
    return state == TCP_CLOSE_WAIT || state == TCP_LAST_ACK || state == TCP_CLOSING;
}

bool has_own_end(int state)
{
    return state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 || state == TCP_LAST_ACK ||
           state == TCP_CLOSING;
}

EndSegment peers_end(const image::KeptConnection &kept)
{
    EndSegment segment;
    segment.seq = kept.receive_seq;
    segment.acknowledged = kept.send_seq - static_cast<uint32_t>(kept.size);
    segment.window =
        static_cast<uint16_t>(std::min<uint32_t>(kept.send_window >> kept.send_scale, UINT16_MAX));
    return segment;
}

bool is_sound(const image::KeptConnection &kept)
{
    if (kept.send_room > most_room || kept.receive_room > most_room)
        return false;
    if (kept.state == TCP_SYN_SENT)
        return kept.size == 0 && kept.unsent == 0;
    return (kept.state == 0 || has_peers_end(static_cast<int>(kept.state))) &&
           kept.mss >= least_segment && kept.mss <= UINT16_MAX && kept.send_scale <= widest_scale &&
           kept.receive_scale <= widest_scale && kept.unsent <= kept.size &&
           kept.size <= most_queued;
}

// The kernel doubles what is set, as it reports the double.
void give_room(int fd, uint64_t send, uint64_t receive)
{
    const int to_send = static_cast<int>(std::min<uint64_t>(send, most_room) / 2);
    const int to_receive = static_cast<int>(std::min<uint64_t>(receive, most_room) / 2);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &to_send, sizeof(to_send));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &to_receive, sizeof(to_receive));
}

bool leave_repair(int fd)
{
    set_tcp(fd, TCP_REPAIR_QUEUE, no_queue);
    return set_tcp(fd, TCP_REPAIR, repair_off_silently) ||
           set_tcp(fd, TCP_REPAIR, 0); // Linux before 4.19
}

int reuse_of(int fd)
{
    int reuse = 0;
    return get_option(fd, SOL_SOCKET, SO_REUSEADDR, reuse) ? reuse : 0;
}

void end_repair(int fd, int reuse)
{
    leave_repair(fd);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
}

Repair::Repair(int fd) : fd_(fd), reuse_(reuse_of(fd)), on_(set_tcp(fd, TCP_REPAIR, 1)) {}

Repair::~Repair()
{
    if (on_)
        end_repair(fd_, reuse_);
}

} // namespace cryo::resources
