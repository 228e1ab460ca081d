// SPDX-License-Identifier: Apache-2.0
//
// The connections of commands (ompi-checkpoint and others) to the job's first daemon.
//
//     Commands commands(loop);
//     commands.on_message = [](const std::shared_ptr<Channel> &channel, const Message &message) {};
//     commands.on_end = [](const std::shared_ptr<Channel> &channel) { ... };
//     Result<void> done = commands.listen(job.root_socket());
#pragma once

#include "base/fd.hpp"
#include "coord/channel.hpp"

#include <functional>
#include <memory>
#include <set>
#include <string>

namespace cryo::coord {

class Commands
{
  public:
    explicit Commands(Loop &loop) : loop_(loop) {}
    Result<void> listen(const std::string &path);

    std::function<void(const std::shared_ptr<Channel> &, const Message &)> on_message;
    std::function<void(const std::shared_ptr<Channel> &)> on_end;

  private:
    void accept();
    void tell_of_life();

    Loop &loop_;
    Fd listener_;
    std::set<std::shared_ptr<Channel>> clients_;
    bool beats_ = false; // clients get regular signs of life
};

} // namespace cryo::coord
