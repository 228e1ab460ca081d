// SPDX-License-Identifier: Apache-2.0
//
// The connections of programs that end when their image is complete. They are held from the moment
// at which they are read: nothing arrives and nothing is sent any more. Either the programs end,
// and the connections wait for a restart, or all of it is undone: also when this process is killed,
// by a process of its own that waits for that.
//
//     ConnectionHold hold;
//     hold.add(fd, {local, peer});          // each
//     Result<void> begun = hold.begin();    // holds all
//     hold.remember(0, taken->position);
//     Result<void> silent = hold.silence(); // the signal that ends the programs may follow
//     hold.leave();                         // they have got it; without this it is undone
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "resources/socket/packet_hold.hpp"
#include "resources/socket/tcp_repair.hpp"

#include <cstdint>
#include <optional>
#include <sys/types.h>
#include <vector>

namespace cryo::resources {

class ConnectionHold
{
  public:
    ConnectionHold() = default;
    ~ConnectionHold() { undo(); }
    ConnectionHold(const ConnectionHold &) = delete;
    ConnectionHold &operator=(const ConnectionHold &) = delete;

    // Keeps the open file; EPERM, EXDEV: it cannot be held from here.
    Result<void> add(int fd, TcpEnd end);
    Result<void> begin();
    void remember(size_t number, const TcpPosition &taken);
    int fd(size_t number) const { return held_[number].fd.get(); }
    uint64_t number() const { return number_; }

    // EAGAIN: one has changed since it was read.
    Result<void> silence();
    void leave();
    void undo();

  private:
    struct Held {
        Fd fd;
        TcpEnd end;
        int reuse = 0; // the program's SO_REUSEADDR
        std::optional<TcpPosition> taken;
    };
    Result<void> start_guard();
    [[noreturn]] void guard(int from);
    void undo_all();
    void dismiss_guard(bool undo);

    std::vector<Held> held_;
    uint64_t number_ = 0; // 0: nothing is held
    Fd to_guard_;
    pid_t guard_ = -1;
};

} // namespace cryo::resources
