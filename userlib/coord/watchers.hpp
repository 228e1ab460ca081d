// SPDX-License-Identifier: Apache-2.0
//
// The commands that follow the checkpoint under way, and the state that they were told of last,
// which commands ask for later, too.
//
//     watchers.add(channel);
//     watchers.say("running");
//     watchers.tell(Message(Type::waiting));
//     watchers.release();             // they have been told of the end
#pragma once

#include "coord/channel.hpp"

#include <memory>
#include <set>
#include <string>
#include <utility>

namespace cryo::coord {

// The message that ends a command's conversation when it fails.
Message end_of(const Error &error);

class Watchers
{
  public:
    void add(const std::shared_ptr<Channel> &channel) { all_.insert(channel); }
    void remove(const std::shared_ptr<Channel> &channel) { all_.erase(channel); }
    void release() { all_.clear(); }
    void tell(const Message &message) const;
    void say(std::string state);
    void keep(std::string state) { state_ = std::move(state); } // without a word
    const std::string &state() const { return state_; }

  private:
    std::set<std::shared_ptr<Channel>> all_;
    std::string state_ = "none";
};

} // namespace cryo::coord
