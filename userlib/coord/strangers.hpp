// SPDX-License-Identifier: Apache-2.0
//
// Connections of which it is not known yet whose they are: few at a time, and not for long. Where
// there are too many, one of those from the address that has most of them goes: whoever floods a
// daemon displaces himself, and only where he shares an address with somebody perhaps him, who
// tries again.
//
//     Strangers strangers(loop, {.most = 16, .milliseconds = 3000});
//     strangers.meet(channel, address);
//     strangers.known(channel);           // he has proven who he is
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
    // False: he was none.
    bool known(const Channel &channel);

  private:
    struct One {
        std::shared_ptr<Channel> channel;
        std::string address;
    };
    void make_room();

    Loop &loop_;
    Limits limits_;
    std::vector<One> all_;
    std::minstd_rand random_{std::random_device()()};
};

} // namespace cryo::coord
