// SPDX-License-Identifier: Apache-2.0
//
// Connections whose peers are not authenticated yet: few at a time, and not
// for long. If there are too many, one from the address that has most of
// them is closed: a flooding client displaces its own connections, and a
// legitimate peer's only if both share an address; that peer tries again.
//
//     Strangers strangers(loop, {.most = 16, .milliseconds = 3000});
//     strangers.meet(channel, address);
//     strangers.known(channel);           // the peer is authenticated
#pragma once

#include "coord/channel.hpp"

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace cryo::coord {

class Strangers
{
  public:
    struct Limits {
        size_t most;
        int64_t milliseconds;
    };
    Strangers(Loop &loop, Limits limits) : loop_(loop), limits_(limits) {}

    void meet(const std::shared_ptr<Channel> &channel, const std::string &address);
    // False: it was not among them.
    bool known(const Channel &channel);

  private:
    struct One {
        std::shared_ptr<Channel> channel;
        std::string address;
    };
    void make_room();
    void wait(const std::weak_ptr<Channel> &channel, int left);

    Loop &loop_;
    Limits limits_;
    std::vector<One> all_;
    std::minstd_rand random_{std::random_device()()};
};

} // namespace cryo::coord
