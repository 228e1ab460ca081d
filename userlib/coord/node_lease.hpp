// SPDX-License-Identifier: Apache-2.0
//
// The lease of a node's daemon from the job's first daemon, if the job is supervised. While it is
// renewed nothing happens; when it has ended, so has the daemon, and with it all that it holds
// (leashes.hpp).
//
//     NodeLease lease(loop, report);
//     lease.ask();                    // before `join` is sent
//     lease.begin(joined);            // with the answer
//     Result<void> done = lease.arm();    // in the process that stays
//     lease.granted(renewed);
#pragma once

#include "coord/lease.hpp"
#include "coord/loop.hpp"
#include "coord/message.hpp"
#include "coord/own_end.hpp"

#include <functional>
#include <optional>

namespace cryo::coord {

class NodeLease
{
  public:
    NodeLease(Loop &loop, std::function<void(const Message &)> report)
        : loop_(loop), report_(std::move(report))
    {}
    void ask();
    void begin(const Message &joined);
    bool is_there() const { return lease_.has_value(); }
    Result<void> arm();
    void granted(const Message &renewed);

  private:
    void renew();

    Loop &loop_;
    std::function<void(const Message &)> report_;
    int64_t asked_ = 0;
    int64_t length_ = 0;
    std::optional<Lease> lease_;
    std::optional<OwnEnd> end_;
};

} // namespace cryo::coord
