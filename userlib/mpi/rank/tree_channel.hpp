// SPDX-License-Identifier: Apache-2.0
//
// The channel of a real job: the connection to the daemon of this node.
//
//     static TreeChannel channel;
//     if (channel.connect(environ, rank, ranks) < 0) ...   // channel.why()
#pragma once

#include "coord/rank_side.hpp"
#include "mpi/rank/hooks.hpp"

namespace cryo::mpi::rank {

class TreeChannel : public Channel
{
  public:
    int connect(const char *const *environment, uint32_t rank, uint32_t ranks)
    {
        return side_.connect(environment, rank, ranks);
    }
    const char *why() const { return side_.why(); }
    coord::TookImage take_image(void (*meanwhile)()) { return side_.take_image(meanwhile); }

    void listen(Arrived arrived) override
    {
        told_ = arrived;
        side_.on_arrival([](void *self) { static_cast<TreeChannel *>(self)->told_(); }, this);
        arrived(); // messages may have arrived before
    }
    void close() override { side_.disconnect(); }
    int descriptor() const override { return side_.descriptor(); }
    void send(bookmark::Bytes message) override { side_.send(message); }
    bool receive(bookmark::Rank &rank) override
    {
        return side_.receive(
            [](void *to, bookmark::Bytes message) {
                static_cast<bookmark::Rank *>(to)->handle(message);
            },
            &rank);
    }

  private:
    coord::RankSide side_;
    Arrived told_ = nullptr;
};

} // namespace cryo::mpi::rank
