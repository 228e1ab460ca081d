// SPDX-License-Identifier: Apache-2.0
//
// The processes of this node that must not outlive its daemon, in a supervised job. Each has a
// connection of its own for that, on which nothing is ever sent: the kernel sends the process
// SIGKILL when the daemon's end of it closes, whatever ends the daemon (rank_leash.cpp). A process
// that closes its own end is killed, too.
//
//     Leashes leashes;
//     leashes.want();
//     leashes.hold(channel);                     // of a process that has asked for it
//     if (leashes.holds(pid)) ...
#pragma once

#include "base/fd.hpp"
#include "coord/channel.hpp"

#include <functional>
#include <map>
#include <memory>

namespace cryo::coord {

class Leashes
{
  public:
    void want() { wanted_ = true; }
    bool are_wanted() const { return wanted_; }
    std::function<void()> on_end; // of a process

    // Answers it, or closes the connection.
    void hold(const std::shared_ptr<Channel> &channel);
    bool holds(int pid) const;
    bool empty() const { return all_.empty(); }
    bool had_any() const { return had_any_; }

  private:
    struct One {
        std::shared_ptr<Channel> channel;
        int pid;
        Fd process;
    };
    void let_go(const Channel *channel);

    std::map<const Channel *, One> all_;
    bool wanted_ = false;
    bool had_any_ = false;
};

} // namespace cryo::coord
