// SPDX-License-Identifier: Apache-2.0
//
// TCP_REPAIR call by call, for what takes a connection out of its socket and what makes it again.
//
//     const Repair repair(fd); // until the end of its scope, unless it is left on
//     uint32_t received = 0;
//     if (!repair || !seq_of(fd, receive_queue, received))
//         return repair_failed("reading a connection's position");
#pragma once

#include "base/result.hpp"
#include "image/records.hpp"
#include "resources/socket/peer_end.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <sys/socket.h>

namespace cryo::resources {

constexpr size_t most_queued = 64 << 20; // in each direction: more than tcp_[rw]mem allow anywhere

enum RepairQueue : int { no_queue = 0, receive_queue = 1, send_queue = 2 };

struct RepairWindow { // struct tcp_repair_window
    uint32_t update_seq, send, greatest, receive, told_seq;
};

bool set_tcp(int fd, int name, int value);
template <class T>
bool get_option(int fd, int level, int name, T &value)
{
    socklen_t size = sizeof(value);
    return getsockopt(fd, level, name, &value, &size) == 0 && size == sizeof(value);
}
// Both choose the queue.
bool set_seq(int fd, RepairQueue queue, uint32_t seq);
bool seq_of(int fd, RepairQueue queue, uint32_t &seq);
bool set_window(int fd, const RepairWindow &window);
bool window_of(int fd, RepairWindow &window);
// With errno.
Error repair_failed(std::string_view what);

// TCP_ESTABLISHED …; −1: unknown.
int state_of(int fd);
// Whether the end that the peer sends has come; whether there is one that this side sends.
bool has_peers_end(int state);
bool has_own_end(int state);

// The end that the peer has sent, with the number that it has, for peer_end.hpp.
EndSegment peers_end(const image::KeptConnection &kept);

// Whether a connection can have these numbers: those of images are what anybody has written.
bool is_sound(const image::KeptConnection &kept);
// Sizes of the buffers, as SO_SNDBUF and SO_RCVBUF tell them.
void give_room(int fd, uint64_t send, uint64_t receive);

// Sends no window probe.
bool leave_repair(int fd);
// Likewise; `reuse`: the program's SO_REUSEADDR, which repair changes.
void end_repair(int fd, int reuse);
int reuse_of(int fd);

// Under repair while it exists, unless it is left so.
class Repair
{
  public:
    explicit Repair(int fd);
    ~Repair();
    Repair(const Repair &) = delete;
    Repair &operator=(const Repair &) = delete;

    explicit operator bool() const { return on_; }
    void leave_on() { on_ = false; }

  private:
    int fd_, reuse_;
    bool on_;
};

} // namespace cryo::resources
