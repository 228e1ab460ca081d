// SPDX-License-Identifier: Apache-2.0
//
// A channel over a SOCK_SEQPACKET socket, with one message per packet. What the kernel does not
// accept at once is queued here. For tests, whose daemon is on the same node and saves nothing.
//
//     static PacketLink link(descriptor);
//     hooks.channel = &link;
#pragma once

#include "mpi/rank/hooks.hpp"

#include <list>

namespace cryo::mpi::rank {

class PacketLink : public Channel
{
  public:
    explicit PacketLink(int descriptor);
    int descriptor() const override { return descriptor_; }
    void listen(Arrived arrived) override;
    void close() override;
    void send(bookmark::Bytes message) override;
    bool receive(bookmark::Rank &rank) override;

    // Connects to a daemon that listens at a path, as the rank of this number. -1: see errno.
    static int connect(const char *path, uint32_t rank);

  private:
    void flush();

    int descriptor_;
    std::pmr::list<std::pmr::vector<uint8_t>> waiting_;
};

} // namespace cryo::mpi::rank
