// SPDX-License-Identifier: Apache-2.0
//
// What one rank tells the tree in a checkpoint.
//
//     Reports reports(self, link, memory);
//     reports.begin(3);                          // messages carry the checkpoint's number
//     reports.raise(comm, 0);
//     Message ready = reports.message(MessageType::ready);
//     ...
//     reports.send(ready);
#pragma once

#include "bookmark/wire.hpp"

namespace cryo::bookmark {

// The connection to the tree. send() queues and never blocks; a signal handler may call it.
class Link
{
  public:
    Link() = default;
    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;
    virtual ~Link() = default;
    virtual void send(Bytes message) = 0;
};

class Reports
{
  public:
    Reports(WorldRank self, Link &link, std::pmr::memory_resource *memory)
        : self_(self), link_(link), memory_(memory)
    {}
    Reports(const Reports &) = delete;
    Reports &operator=(const Reports &) = delete;

    WorldRank self() const { return self_; }
    uint32_t epoch() const { return epoch_; }
    void begin(uint32_t epoch) { epoch_ = epoch; }

    Message message(MessageType type) const { return Message(type, epoch_, memory_); }
    void send(const Message &message) { link_.send(pack(message, memory_)); }

    // The clock of a communicator: `heard` is 1 if the tree has not heard of it from this rank.
    void raise(const Comm &comm, uint32_t heard);
    // MessageType::need, or unneed.
    void need(MessageType type, const Need &need);
    // There can be no checkpoint, because of what this rank is doing.
    void abandon(Doing doing);

  private:
    WorldRank self_;
    Link &link_;
    std::pmr::memory_resource *memory_;
    uint32_t epoch_ = 0;
};

} // namespace cryo::bookmark
