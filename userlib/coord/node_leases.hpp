// SPDX-License-Identifier: Apache-2.0
//
// The leases that the first daemon of a supervised job gives to the daemons of other nodes: who has
// not renewed one is taken for lost.
//
//     NodeLeases leases(loop, is_supervised);
//     leases.on_end = [&](uint32_t member) { ... };   // its lease has ended
//     leases.begin(member, joined);                   // what is told with the answer to `join`
//     leases.renew(member, channel, message);
//     const int64_t over = leases.end(member);        // its connection has ended
#pragma once

#include "coord/channel.hpp"
#include "coord/lease.hpp"
#include "coord/loop.hpp"

#include <functional>
#include <set>

namespace cryo::coord {

class NodeLeases
{
  public:
    NodeLeases(Loop &loop, bool wanted) : loop_(loop), wanted_(wanted) {}
    std::function<void(uint32_t)> on_end;

    void begin(uint32_t member, Message &joined);
    void renew(uint32_t member, Channel &channel, const Message &request);
    // Nothing is left of the job on that node.
    void leave(uint32_t member) { grants_.forget(member); }
    bool has(uint32_t member) const { return grants_.has(member); }
    // When nothing of that node acts any more; 0: nothing of the job is left there, or nobody asks.
    int64_t end(uint32_t member);
    int64_t over(uint32_t member) const { return grants_.over(member); }
    // Of any node, after the end of this daemon.
    int64_t longest() const { return wanted_ ? times_.lease + times_.margin : 0; }

  private:
    void look();

    Loop &loop_;
    bool wanted_;
    LeaseTimes times_ = lease_times();
    Grants grants_{times_};
    bool looks_ = false;
};

} // namespace cryo::coord
